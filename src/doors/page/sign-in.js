// Draws the sign-in card with this server's ways to sign in: at an app or an issuer (external-sign-in.js), with a link from
// the operator, or with a pasted token.

import { html, redraw } from '../../pages/widgets/draw.js';
import { complaint, copyGesture, copyText, select, setup, workButton } from '../../pages/widgets/parts.js';
import { leaveButton } from './external-sign-in.js';
import { page } from './session.js';
import { signIn } from './token-sign-in.js';

const { app, issuer, links, mints } = setup;
const isOnlyPasted = app === null && issuer === null && !links;
/** Hides ways that are for operators, so that users see theirs first. */
const isFolded = app !== null || (links && mints === null);

const COMMAND = `${mints} --sub your-name --link`;
let copied = ''; // what came of copying it

async function copy() {
  const isCopied = await copyText(COMMAND);
  if (!isCopied) select('command');
  copied = isCopied ? 'Copied.' : `It is selected: ${copyGesture()}.`;
  redraw();
}

/** Draws the card. `waiting` says who waits for a decision, or is ''. */
export function signInCard(why, waiting) {
  const away = leaveButton();
  return html`<section class="card stack narrow" aria-labelledby="sign-in-title">
    <h2 id="sign-in-title" at="sign-in" tabindex="-1">Sign in</h2>
    ${why !== '' && complaint(why)}
    ${waiting !== '' && html`<p role="status">${waiting}</p>`}
    <p class="hint">With an API key a program calls this server on your behalf. Here you make keys, and end them. You are
      signed in until you close or reload this tab.</p>
    ${away && html`<div>${away}</div>`}
    ${page.leaving?.view()}
    ${app === null && linkWords()}
    ${
      isFolded
        ? html`<details at="others"><summary>Other ways to sign in</summary>
            <div class="stack">${app !== null && linkWords()}${pasteForm()}</div>
          </details>`
        : pasteForm()
    }
  </section>`;
}

function linkWords() {
  if (!links) return null;
  if (mints === null) return html`<p>Ask whoever runs this server for a link that signs you in.</p>`;
  return html`<div class="field">
    <p>Whoever runs this server can send you a link that signs you in. It is made on the server:</p>
    <div class="line">
      <pre at="command">${COMMAND.split(' ').flatMap((word) => [html`<span>${word}</span>`, ' '])}</pre>
      <button at="copy command" aria-label="Copy the command" onclick=${copy}>Copy</button>
    </div>
    <p class=${copied === '' ? 'sr' : 'hint'} role="status">${copied}</p>
  </div>`;
}

function pasteForm() {
  const use = ({ target }) => signIn(new FormData(target).get('token').trim());
  return html`<form class=${isOnlyPasted ? 'field' : 'field next'} onsubmit=${use}>
    <label for="token">${isOnlyPasted ? 'Paste' : 'Or paste'} a user token</label>
    <div class="line">
      <input id="token" name="token" autocomplete="off" autocapitalize="off" required />
      ${workButton({ at: 'use token', label: 'Sign in', doing: 'Signing in…', look: isOnlyPasted && 'solid' })}
    </div>
  </form>`;
}
