// The page /keys: signs somebody in, lists their keys, and makes new ones.

import { html, mount, redraw } from '../widgets/draw.js';
import { newKey } from '../widgets/new-key.js';
import { busily, complaint, icon, nameOf, setup, workButton } from '../widgets/parts.js';
import { errandView, takeFromAddress, waitingWords } from './errand.js';
import { keyForm, openParts } from './key-form.js';
import { searchForm, viewButtons } from './others.js';
import { askToSignIn, callTool, forget, page, set, signIn } from './session.js';
import { comeBack, signInCard, takeKept } from './sign-in.js';

const create = (wanted) =>
  busily('go on', async () => {
    const { session } = page;
    page.form = {};
    const { output, failure } = await callTool('create_api_key', wanted);
    if (page.session !== session) return; // it was somebody else's
    if (output === null) {
      if (session.token !== undefined) page.form = { failure };
      return;
    }
    const saved = () => {
      page.made.close();
      set({ made: null }, 'new', 'all');
    };
    set({ form: null, made: newKey({ made: output, saved }) }, 'new key');
    void page.list.load();
  });

function refresh() {
  page.notice = '';
  return page.list.load();
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

const formView = ({ form }) =>
  keyForm({
    id: 'create-title',
    head: html`<h2 id="create-title">New key</h2>`,
    fields: {},
    failure: form.failure,
    verb: 'Create key',
    doing: 'Creating…',
    other: html`<button type="button" at="cancel create" onclick=${() => set({ form: null }, 'new')}>Cancel</button>`,
    act: create,
  });

function keysView({ session, whose, form, made, notice, list, question }) {
  const isOwn = whose === null;
  const mayCreate = isOwn && form === null && made === null;
  const open = () => set({ form: {} }, 'name');
  const decide = () => set({ errand: { ask: '' } }, 'code');
  return html`<div class="stack" at="keys">
    <div class="line">
      ${session.isAdmin && viewButtons()}
      <div class="line end">
        ${isOwn && setup.asks && html`<button type="button" at="ask" onclick=${decide}>A program asks for a key</button>`}
        ${workButton({ at: 'refresh', label: 'Refresh', doing: 'Refreshing…', act: refresh })}
        ${mayCreate && html`<button type="button" class="solid" at="new" onclick=${open}>Create a key</button>`}
      </div>
    </div>
    ${!isOwn && searchForm()}
    ${question?.view()}
    <p class="hint" role="status">${notice}</p>
    ${form !== null && formView(page)}
    ${made !== null && html`<div class="card flush" at="made">${made.view()}</div>`}
    <div class="card flush" at="listed">${list.view()}</div>
  </div>`;
}

const view = ({ session, why, errand }) => html`${top(page)}
  <main class="stack">
    ${why !== null && signInCard(why, waitingWords(page))}
    ${session !== null && (errand === null ? keysView(page) : errandView(page))}
    ${why === null && session === null && html`<p class="card" role="status">Signing in…</p>`}
  </main>`;

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
  if (refused !== null)
    return mount(() => html`${top(page)}<main><div class="card">${complaint(refused)}</div></main>`);
  document.addEventListener('invalid', openParts, true); // that event does not bubble
  window.onhashchange = () => {
    const followed = takeFromAddress();
    if (followed.errand !== null) set({ errand: followed.errand }, 'errand');
    if (followed.token !== null) void signIn(followed.token);
  };
  window.onpagehide = () => {
    forget(); // a browser may keep the page, to come back to
    redraw();
  };
  window.onpageshow = ({ persisted }) => persisted && location.reload();
  Object.assign(page, { typed: kept?.typed ?? null, errand: errand ?? kept?.errand ?? null });
  mount(() => view(page));
  if (token !== null) return signIn(token);
  if (setup.issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  askToSignIn('');
}

start();
