// The page /keys: signs somebody in, lists their keys, and makes new ones.

import { html, mount, redraw } from '../widgets/draw.js';
import { newKey } from '../widgets/new-key.js';
import { busily, complaint, icon, nameOf, setup, workButton } from '../widgets/parts.js';
import { question } from '../widgets/question.js';
import { errandView, takeFromAddress, waitingWords } from './errand.js';
import { keyForm, openParts } from './key-form.js';
import { askToSignIn, callTool, forget, page, set, show, signIn } from './session.js';
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

/** The browser, too, forgets how the page was opened. */
const signOut = () => location.reload();

const whoIs = ({ sub, owner }) => html`<div class="line end">
  <p class="hint">Signed in as ${nameOf(String(sub))}${owner !== sub && html`, for ${nameOf(String(owner))}`}</p>
  <button type="button" at="sign out" onclick=${signOut}>Sign out</button>
</div>`;

const top = () => html`<header class="line">
  <h1 class="line">${icon('key')}<span>API keys <small>at ${new URL(setup.url).host}</small></span></h1>
  ${page.session !== null && whoIs(page.session)}
</header>`;

const formView = () =>
  keyForm({
    id: 'create-title',
    head: html`<h2 id="create-title">New key</h2>`,
    fields: {},
    failure: page.form.failure,
    verb: 'Create key',
    doing: 'Creating…',
    other: html`<button type="button" at="cancel create" onclick=${() => set({ form: null }, 'new')}>Cancel</button>`,
    act: create,
  });

function keysView() {
  const { session, whose, form, made, notice, list } = page;
  const isOwn = whose === null;
  const mayCreate = isOwn && form === null && made === null;
  const open = () => set({ form: {} }, 'name');
  const decide = () => set({ errand: { ask: '' } }, 'code');
  const refresh = () => {
    page.notice = '';
    return list.load();
  };
  return html`<div class="stack" at="keys">
    <div class="line">
      ${session.isAdmin && viewButtons(isOwn)}
      <div class="line end">
        ${isOwn && setup.asks && html`<button type="button" at="ask" onclick=${decide}>A program asks for a key</button>`}
        ${workButton({ at: 'refresh', label: 'Refresh', doing: 'Refreshing…', act: refresh })}
        ${mayCreate && html`<button type="button" class="solid" at="new" onclick=${open}>Create a key</button>`}
      </div>
    </div>
    ${!isOwn && searchForm(whose)}
    ${page.question?.view()}
    <p class="hint" role="status">${notice}</p>
    ${form !== null && formView()}
    ${made !== null && html`<div class="card flush" at="made">${made.view()}</div>`}
    <div class="card flush" at="listed">${list.view()}</div>
  </div>`;
}

/** For admins, who may see the keys of all owners. */
function viewButtons(isOwn) {
  const button = (at, label, isPressed, whose) => html`<button type="button" at=${at} aria-pressed=${String(isPressed)}
    onclick=${() => isPressed || show(whose)}>
    ${label}
  </button>`;
  return html`<div class="pills line" role="group" aria-label="Whose keys">
    ${button('own', 'Your keys', isOwn, null)}${button('all', 'All keys', !isOwn, '')}
  </div>`;
}

function searchForm(whose) {
  const search = ({ target }) => show(new FormData(target).get('owner'));
  const revoke = html`<button type="button" class="bad end" at="revoke all" onclick=${() => askToRevokeAll(whose)}>
    Revoke all of ${nameOf(whose)}
  </button>`;
  return html`<form class="line" role="search" at="search form" onsubmit=${search}>
    <label for="owner-wanted">Owner, exactly</label>
    <input id="owner-wanted" name="owner" maxlength="510" autocomplete="off" autocapitalize="off" spellcheck="false" />
    <button>Show keys</button>
    ${whose !== '' && revoke}
  </form>`;
}

function askToRevokeAll(owner) {
  const { list } = page;
  async function act() {
    const { output, failure } = await callTool('admin_revoke_keys', { owner });
    if (page.list !== list) return; // the keys of somebody else are shown meanwhile
    if (output === null) return failure;
    show(owner);
    set({ notice: output.revoked === 1 ? '1 key revoked.' : `${output.revoked} keys revoked.` }, 'revoke all');
  }
  const asked = question({
    at: 'of all',
    look: 'card',
    label: `Revoke all of ${owner}?`,
    words: html`Revoke all keys of ${nameOf(owner)}? Programs that use them are ${setup.refused}.`,
    verb: 'Revoke all',
    doing: 'Revoking…',
    ends: true,
    act,
    close: () => set({ question: null }, 'revoke all'),
  });
  set({ question: asked }, 'cancel of all');
}

function view() {
  const { session, why, errand } = page;
  return html`${top()}
    <main class="stack">
      ${why !== null && signInCard(why, waitingWords(errand))}
      ${session !== null && (errand === null ? keysView() : errandView(errand))}
      ${why === null && session === null && html`<p class="card" role="status">Signing in…</p>`}
    </main>`;
}

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
  if (refused !== null) return mount(() => html`${top()}<main><div class="card">${complaint(refused)}</div></main>`);
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
  mount(view);
  if (token !== null) return signIn(token);
  if (setup.issuer?.endpoints && (query.has('code') || query.has('error'))) return comeBack(query, kept);
  askToSignIn('');
}

start();
