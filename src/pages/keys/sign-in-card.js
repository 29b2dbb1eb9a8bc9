// The ways in: with an issuer, with a link that whoever runs the server makes, and with a pasted token.

import { html } from '../widgets/html.js';
import { complaint, workButton } from '../widgets/parts.js';

/** `why`, `waiting`: what there is to say first, and who waits, or ''. `leave` goes to the issuer; `use(token)` takes what was pasted. */
export function signInCard({ issuer, mints }, { why, waiting, isBusy, leave, use }) {
  const submit = (event) => {
    event.preventDefault();
    use(new FormData(event.target).get('token').trim());
  };
  const isOnlyWay = issuer === null && mints === null;
  return html`<section class="card stack narrow" aria-labelledby="sign-in-title">
    <h2 id="sign-in-title" at="sign-in" tabindex="-1">Sign in</h2>
    ${why !== '' && complaint(why)}
    ${waiting !== '' && html`<p role="status">${waiting}</p>`}
    <p class="hint">With an API key a program calls this server on your behalf. Here you make keys, and end them.</p>
    ${issuer !== null && byIssuer(issuer, leave)}
    ${mints !== null && byLink(mints)}
    <form class=${isOnlyWay ? 'field' : 'field next'} onsubmit=${submit}>
      <label for="token">${isOnlyWay ? 'Paste' : 'Or paste'} a user token</label>
      <div class="line">
        <input id="token" name="token" autocomplete="off" autocapitalize="off" spellcheck="false" required
          aria-describedby="token-hint" />
        ${workButton(isBusy, 'Sign in', 'Signing in…', { type: 'submit', class: isOnlyWay && 'solid', at: 'use token' })}
      </div>
      <p id="token-hint" class="hint">It stays in this tab, and is gone when you close or reload it.</p>
    </form>
  </section>`;
}

const byIssuer = ({ name, endpoints }, leave) => html`<div>
  ${
    endpoints === null
      ? complaint(html`<bdi>${name}</bdi>, where you sign in, can’t be reached. Reload the page to try again.`)
      : html`<button type="button" class="solid" at="leave" onclick=${leave}>Sign in with <bdi>${name}</bdi></button>`
  }
</div>`;

const byLink = (command) => html`<div>
  <p>Whoever runs this server can send you a link that signs you in. It is made on the server:</p>
  <pre>${command} --sub <i>your-name</i> --link</pre>
</div>`;
