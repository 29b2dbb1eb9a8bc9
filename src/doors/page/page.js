// The page /keys: signs somebody in, lists their keys, and creates new ones.

import { html, mount } from '../../pages/widgets/draw.js';
import { complaint, icon, setup, toldView, workButton } from '../../pages/widgets/parts.js';
import { takeUp, taskView, waitingWords } from './decisions.js';
import { isFromApp, keepAgain, redeem, takeKept, wordsOfApp } from './external-sign-in.js';
import { dropKey, openParts, selectBeside } from './key-form.js';
import { askToSignIn, forget, isOwn, page, set } from './session.js';
import { signInCard } from './sign-in.js';
import { offerView, signIn, whoIs } from './token-sign-in.js';

const NO_PROGRAMS = 'On this server no program can ask for a key.';
/** The form of a program's code (signin/device-request.ts). */
const CODE = /^[a-z]{4}[-\s]?[a-z]{4}$/i;
const TWICE = 'The request has a parameter twice. Have the program connect again.';

function top() {
  const { session } = page;
  // Signing out reloads the page, so that the browser forgets how it was opened.
  return html`<header class="line">
    <h1 class="line">${icon('key')}<span>API keys <small>at ${new URL(setup.url).host}</small></span></h1>
    ${
      session !== null &&
      html`<div class="line end">
        <p class="hint">Signed in as ${whoIs(session)}</p>
        <button at="sign out" onclick=${() => location.reload()}>Sign out</button>
      </div>`
    }
  </header>`;
}

function keysView() {
  const { task, made, list, part } = page;
  const other = part?.view() ?? null; // what an operator looks at instead
  const mayCreate = other === null && task === null && made.length === 0;
  const refresh = () => {
    page.notice = '';
    return other === null ? list.refresh() : part.refresh();
  };
  return html`<div class="stack" at="keys">
    <div class="line">
      ${part?.tabs()}
      <div class="line end">
        ${workButton({ at: 'refresh', label: 'Refresh', doing: 'Refreshing…', act: refresh })}
        ${mayCreate && createButton(list.full())}
      </div>
    </div>
    ${other ?? ownView()}
  </div>`;
}

const workView = () => html`${page.task !== null && taskView(page.task)}
  ${page.made.map((shown) => html`<div class="card flush" at="made ${shown.copyButton}">${shown.view()}</div>`)}`;

const ownView = () => html`${workView()}
  <div class="card flush" at="listed">${page.list.view()}</div>
  ${setup.asks && html`<p><a href="#ask=" at="ask">A program asks for a key</a></p>`}`;

const FULL = 'No more can be made: delete one, or ask whoever runs this server for more.';

/** Draws the button for a new key. `full` says why no more can be made, or is null. */
function createButton(full) {
  const create = () => (full === null ? set({ task: { create: true } }, 'name') : set({ notice: FULL }));
  return html`<button class="solid" at="new" aria-disabled=${full !== null && 'true'} onclick=${create}>
    Create a key${full !== null && ` (${full})`}
  </button>`;
}

function view() {
  const { session, why, task, offer } = page;
  return html`${top()}
    <main class="stack">
      ${offer !== null && offerView(offer)}
      ${why !== null && offer === null && signInCard(why, waitingWords(task))}
      ${session !== null && [toldView(page.notice), isOwn(task) ? keysView() : workView()]}
      ${why === null && session === null && offer === null && html`<p class="card" role="status">Signing in…</p>`}
    </main>`;
}

/** Returns a sentence that says why this page must send nothing; null if it may. */
function refusal() {
  const { page: address, isSecure } = setup;
  const link = html`<a href=${address}>${address}</a>`;
  if (!isSecure) {
    const where = address.startsWith('https:') ? [' Go to ', link] : [' Ask whoever runs this server for its address.'];
    return ['This page needs HTTPS, and sends nothing without it.', where];
  }
  const isHere = location.origin + location.pathname.replace(/\/$/, '') === address;
  return isHere ? null : ['This server has its page at another address: ', link];
}

/** Reads the parameters in the address, and removes them from it and from the history at once. */
function readAddress() {
  const { hash, search, pathname } = location;
  if (hash !== '' || search !== '') history.replaceState(null, '', pathname);
  const [fragment, query] = [hash.slice(1), search].map((text) => new URLSearchParams(text));
  const [token, state, error, connect, ask] = ['token', 'state', 'error', 'connect', 'ask'].map((name) =>
    fragment.get(name),
  );
  return { token, state, error, query, task: null, why: '', ...taskOf(connect, ask) };
}

/** Returns the `task` that a link asks the person to decide, or `why` it can't; null if it asks for nothing. */
function taskOf(connect, ask) {
  // The page might show one of the two, and the server use the other.
  if (connect !== null) return hasTwice(connect) ? { why: TWICE } : { task: { connect } };
  if (ask === null) return null;
  // Other text would show a stranger's words in large letters, so the person must type the code.
  return setup.asks ? { task: { ask: CODE.test(ask) ? ask : '' } } : { why: NO_PROGRAMS };
}

function hasTwice(query) {
  const names = [...new URLSearchParams(query).keys()];
  return new Set(names).size < names.length;
}

/** Does what a link asks for that was followed while the page is open. */
function follow() {
  const { task, why, token } = readAddress();
  if (task !== null) takeUp(task);
  if (why !== '') set(page.why === null ? { notice: why } : { why });
  if (token !== null) void signIn(token, true);
}

function start() {
  window.onhashchange = readAddress; // also a page that is refused takes a token out of the address
  const came = readAddress();
  const kept = takeKept();
  const refused = refusal();
  if (refused !== null) return mount(() => html`${top()}<main><div class="card">${complaint(refused)}</div></main>`);
  addEventListener('invalid', openParts, true); // `invalid` doesn't bubble
  addEventListener('dblclick', selectBeside);
  for (const act of ['input', 'click']) addEventListener(act, dropKey);
  const { dataset } = document.body;
  dataset.fresh = ''; // until somebody does something, no ring is drawn around the button that has the focus
  for (const act of ['keydown', 'pointerdown']) addEventListener(act, () => delete dataset.fresh, true);
  window.onhashchange = follow;
  window.onpagehide = () => {
    follow(); // the event for a link may still wait
    keepAgain();
    forget(); // a browser may cache the page for going back
  };
  window.onbeforeunload = keepAgain; // what is stored in pagehide gets lost where another process has the next page
  window.onpageshow = ({ persisted }) => persisted && location.reload();
  Object.assign(page, { left: kept?.left ?? null, task: came.task ?? kept?.task ?? null });
  mount(view);
  void enter(came, kept);
}

/** Signs in with what the address or the stored state says, or asks for a sign-in. */
async function enter({ token, state, error, query, why }, kept) {
  const isTheirs = isFromApp(state, kept);
  if (token !== null) return signIn(token, !isTheirs);
  if (error !== null && isTheirs) return askToSignIn(wordsOfApp(error));
  if (!setup.issuer?.endpoints || !(query.has('code') || query.has('error'))) return askToSignIn(why);
  try {
    await signIn(await redeem(query, kept));
  } catch (refused) {
    askToSignIn(refused.message);
  }
}

start();
