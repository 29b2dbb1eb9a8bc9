// The page /keys: signs somebody in, lists their keys, and makes new ones.

import { draw } from '../widgets/draw.js';
import { html } from '../widgets/html.js';
import { newKey } from '../widgets/new-key.js';
import { complaint, icon, nameOf, setup, workButton } from '../widgets/parts.js';
import { question } from '../widgets/question.js';
import { errandView, waitingWords } from './errand.js';
import { keyFields, openParts, typedIn, wantedIn } from './key-form.js';
import { areOthers, searchForm, viewButtons } from './others.js';
import { askToSignIn, busily, callTool, forget, formats, page, refresh, set, show, signIn } from './session.js';
import { leaveFor, redeem, takeFromAddress, takeKept } from './sign-in.js';
import { signInCard } from './sign-in-card.js';

const root = document.getElementById('root');

async function create(event) {
  event.preventDefault();
  const { session } = page;
  const wanted = wantedIn(event.target);
  await busily('create', async () => {
    set({ form: {} });
    const { output, failure } = await callTool('create_api_key', wanted);
    if (page.session !== session) return; // it was somebody else's
    if (output === null) {
      if (session.token !== undefined) page.form = { failure };
      return;
    }
    const made = newKey({
      made: output,
      heading: 'h2',
      formats,
      serverUrl: setup.url,
      saved: closeMade,
      redraw: page.redraw,
    });
    set({ form: null, made }, 'new key');
    void refresh();
  });
}

function closeMade() {
  page.made.close();
  set({ made: null }, 'new', 'all');
}

function askToRevokeAll() {
  const { view } = page;
  const { owner } = view.args;
  async function act() {
    const { output, failure } = await callTool('admin_revoke_keys', { owner });
    if (page.view !== view) return; // the keys of somebody else are shown meanwhile
    if (output === null) return failure;
    show(view);
    set({ notice: output.revoked === 1 ? '1 key revoked.' : `${output.revoked} keys revoked.` }, 'revoke all');
  }
  const about = {
    at: 'of all',
    look: 'card',
    label: `Revoke all of ${owner}?`,
    words: html`Revoke all keys of ${nameOf(owner)}? Programs that use them are ${setup.refused}.`,
    verb: 'Revoke all',
    doing: 'Revoking…',
    ends: true,
  };
  const close = () => set({ question: null }, 'revoke all');
  set({ question: question(about, { act, close, redraw: page.redraw }) }, 'cancel of all');
}

async function leave() {
  try {
    const form = document.getElementById('create');
    await leaveFor(setup.issuer, setup.page, { typed: form && typedIn(form), errand: page.errand });
  } catch {
    askToSignIn('This browser does not let the page sign in: it needs HTTPS, and sessionStorage.');
  }
}

async function comeBack(query, kept) {
  try {
    await signIn(await redeem(setup.issuer, setup.page, query, kept));
  } catch (error) {
    askToSignIn(error.message);
  }
}

/** The browser, too, forgets how the page was opened. */
const signOut = () => location.reload();

const top = ({ session }) => html`<header class="line">
  <h1 class="line">${icon('key')}<span>API keys <small>at ${new URL(setup.url).host}</small></span></h1>
  ${session !== null && whoIs(session)}
</header>`;

const whoIs = ({ sub, owner }) => html`<div class="line end">
  <p class="hint">Signed in as ${nameOf(String(sub))}${owner !== sub && html`, for ${nameOf(String(owner))}`}</p>
  <button type="button" at="sign out" onclick=${signOut}>Sign out</button>
</div>`;

const formView = ({ form: { failure }, doing }) => html`<form class="card stack" id="create" at="form"
  aria-labelledby="create-title" onsubmit=${create}>
  <h2 id="create-title">New key</h2>
  ${keyFields(setup, { at: 'name' })}
  ${failure && complaint(failure)}
  <div class="line">
    ${workButton(doing.has('create'), 'Create key', 'Creating…', { type: 'submit', class: 'solid', at: 'create' })}
    <button type="button" at="cancel create" onclick=${() => set({ form: null }, 'new')}>Cancel</button>
  </div>
</form>`;

function keysView({ session, view, form, made, notice, instead, list, doing }) {
  const mayCreate = form === null && made === null && !areOthers(view);
  const open = () => set({ form: {} }, 'name');
  const decide = () => set({ errand: { ask: '' } }, 'code');
  const refreshing = { at: 'refresh', onclick: () => busily('refresh', () => refresh()) };
  return html`<div class="stack" at="keys">
    <div class="line">
      ${session.isAdmin && viewButtons(view, show)}
      <div class="line end">
        ${setup.asks && !areOthers(view) && html`<button type="button" at="ask" onclick=${decide}>A program asks for a key</button>`}
        ${workButton(doing.has('refresh'), 'Refresh', 'Refreshing…', refreshing)}
        ${mayCreate && html`<button type="button" class="solid" at="new" onclick=${open}>Create a key</button>`}
      </div>
    </div>
    ${areOthers(view) && searchForm(view, { show, ask: askToRevokeAll })}
    ${page.question?.view()}
    <p class="hint" role="status">${notice}</p>
    ${form !== null && formView(page)}
    ${made !== null && html`<div class="card flush" at="made">${made.view()}</div>`}
    <div class="card flush" at="listed">${instead === '' ? list.view() : html`<div class="empty">${instead}</div>`}</div>
  </div>`;
}

page.redraw = () => {
  const { session, why, doing } = page;
  draw(
    root,
    html`${top(page)}
      <main class="stack">
        ${why !== null && signInCard(setup, { why, isBusy: doing.has('use token'), waiting: waitingWords(page.errand), leave, use: signIn })}
        ${session !== null && (page.errand === null ? keysView(page) : errandView(page))}
        ${why === null && session === null && html`<p class="card" role="status">Signing in…</p>`}
      </main>`,
  );
};

/** Why nothing may be sent from here, as a sentence; null: it may. */
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

function start() {
  window.onhashchange = takeFromAddress;
  const { token, query, errand } = takeFromAddress();
  const kept = takeKept();
  const refused = refusal();
  if (refused !== null) return draw(root, html`${top(page)}<main><div class="card">${complaint(refused)}</div></main>`);
  root.addEventListener('invalid', openParts, true); // that event does not bubble
  window.onhashchange = () => {
    const followed = takeFromAddress();
    if (followed.errand !== null) set({ errand: followed.errand }, 'errand');
    if (followed.token !== null) void signIn(followed.token);
  };
  window.onpagehide = () => {
    forget(); // a browser may keep the page, to come back to
    page.redraw();
  };
  window.onpageshow = ({ persisted }) => persisted && location.reload();
  Object.assign(page, { typed: kept?.typed ?? null, errand: errand ?? kept?.errand ?? null });
  if (token !== null) return signIn(token);
  if (setup.issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  askToSignIn('');
}

start();
