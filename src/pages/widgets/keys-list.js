// The list of keys, for the widget and for the page: shows, sorts, filters, and asks before it changes a key.

import { change, find, focusOn, h, html, redraw } from './draw.js';
import { keyRow, readKey, readRotation, STATES, stateOf, textOrNull } from './key-row.js';
import { newKey } from './new-key.js';
import { complaint, HEADING, icon, inWords, pill, setup, workButton } from './parts.js';
import { askAbout, firstIn } from './question.js';

const TOOLS_FROM = 8; // fewer keys can be seen at a glance
const REFRESH_MS = 60_000; // words like "5 minutes ago" grow old

const { compare } = new Intl.Collator('en', { numeric: true });
const ranks = Object.keys(STATES);
const NEVER_MS = 9e15; // after every time
const ORDERS = {
  created: (a, b) => (b.createdAt ?? -NEVER_MS) - (a.createdAt ?? -NEVER_MS),
  name: (a, b) => compare(a.name, b.name),
  state: (a, b) => ranks.indexOf(a.state) - ranks.indexOf(b.state),
  expires: (a, b) => (a.expiresAt ?? NEVER_MS) - (b.expiresAt ?? NEVER_MS),
  'last used': (a, b) => (b.lastUsedAt ?? -NEVER_MS) - (a.lastUsedAt ?? -NEVER_MS),
};

/**
 * `callTool` null: nothing can be changed from here. `source`: the tool that lists, and its arguments. `title`: whose
 * keys these are. `hints`: what is said where there are none.
 */
export function keysList(options) {
  const list = {
    ...options,
    keys: [], // as listed
    cursor: null, // of the next page; null: these are all
    search: '',
    only: null, // a state, or null: all
    order: 'created',
    questions: new Map(), // by id of the key: one, and those whose response is awaited
    secrets: new Map(), // new secrets of rotated keys, by id
    instead: 'Loading keys…', // in place of keys that could not be had
    loading: null, // the latest request for them, while it is on its way
    status: '',
  };
  const ticking = setInterval(() => bringUpToDate(list), REFRESH_MS);
  return {
    view: () => viewOf(list),
    load: () => load(list),
    take: (result) => take(list, result),
    ids: () => list.keys.map(({ id }) => id),
    holdsSecrets: () => list.secrets.size > 0,
    close() {
      clearInterval(ticking);
      list.loading = null;
      for (const id of list.secrets.keys()) forgetSecret(list, id);
    },
  };
}

/** What comes is shown, unless it was asked for again meanwhile. */
async function load(list, status = '') {
  const { callTool, source } = list;
  const loading = callTool(source.tool, source.args);
  change(list, { loading, status });
  const result = await loading;
  if (list.loading === loading) take(list, result);
}

/** Takes what the tool returned (parts.js). A failure takes no keys away, because a new one may stand among them. */
function take(list, { output, failure, status }) {
  list.loading = null;
  if (status === 401) return; // whoever signs in again gets the list
  if (output !== null) {
    Object.assign(list, { keys: output.keys.flatMap(readKey), cursor: textOrNull(output.nextCursor), instead: '' });
    for (const id of list.secrets.keys()) if (!isListed(list, id)) forgetSecret(list, id);
    bringUpToDate(list);
  } else if (list.instead === '') change(list, { status: `The list could not be refreshed. ${failure}` });
  else change(list, { instead: complaint(`No keys to show. ${failure}`) });
}

const isListed = ({ keys }, wanted) => keys.some(({ id }) => id === wanted);

function forgetSecret({ secrets }, id) {
  secrets.get(id)?.close();
  secrets.delete(id);
}

/** States and words follow the time. */
function bringUpToDate(list) {
  const nowMs = Date.now();
  for (const key of list.keys) Object.assign(key, { state: stateOf(key, nowMs), drawn: null });
  if (!list.keys.some(({ state }) => state === list.only)) list.only = null;
  redraw();
}

/** The keys that are shown, in order; those too in whose rows a response is awaited, or has come. */
function shownOf({ keys, search, only, order, questions, secrets }) {
  const wanted = search.trim().toLowerCase();
  return keys
    .filter(
      ({ id, state, text }) =>
        ((only === null || state === only) && text.includes(wanted)) || questions.has(id) || secrets.has(id),
    )
    .sort(ORDERS[order]);
}

/** As it was drawn before, if nothing in it has changed: there may be a thousand. */
function rowOf(list, key) {
  const below = [list.questions, list.secrets].map((shown) => shown.get(key.id)?.view()).filter(Boolean);
  const ask = list.callTool && ((kind) => askIn(list, key, kind));
  const row = (below.length === 0 && key.drawn) || keyRow(key, ask, below);
  key.drawn = below.length === 0 ? row : null;
  return row;
}

function askIn(list, key, kind) {
  const { questions, callTool } = list;
  const { id } = key;
  if (questions.get(id)?.isBusy()) return; // the response to that one comes first
  for (const [other, { isBusy }] of questions) if (!isBusy()) questions.delete(other);
  const question = askAbout(key, kind, {
    callTool,
    done(output) {
      finish(list, id, kind, output);
      if (list.loading !== null) void load(list, list.status); // what that one says may be over
    },
    missed(failure) {
      if (!isListed(list, id)) list.status = failure;
    },
    close() {
      questions.delete(id);
      redraw();
      focusOn(`${kind} ${id}`);
    },
  });
  questions.set(id, question);
  change(list, { status: '' });
  focusOn(firstIn(kind, id));
}

/** The list may be a newer one by now, and the person elsewhere. */
function finish(list, id, kind, output) {
  const hadFocus = find(`row ${id}`)?.contains(document.activeElement) === true;
  const order = shownOf(list).map((key) => key.id);
  const key = list.keys.find((listed) => listed.id === id);
  list.questions.delete(id);
  list.status = typeof output.message === 'string' ? output.message : `API key ${kind}d`;
  forgetSecret(list, id);
  if (kind === 'delete') list.keys = list.keys.filter((listed) => listed !== key);
  else if (kind === 'revoke' && key) key.active = false;
  else if (key) keepSecret(list, key, output);
  bringUpToDate(list);
  if (!hadFocus) return;
  if (kind === 'rotate') return focusOn(list.secrets.get(id)?.copyButton);
  const next = order.indexOf(id) + 1;
  focusOnRow(kind === 'delete' ? [order[next], order[next - 2]] : [id]);
}

const focusOnRow = (ids) => ids.some((id) => focusOn(`delete ${id}`) || focusOn(`details ${id}`)) || focusOn('title');

function keepSecret(list, key, output) {
  const { id, name } = key;
  key.rotation = readRotation(output.previous);
  if (key.rotation === null) key.fingerprint = null; // that of the old key, which has ended
  const saved = () => {
    forgetSecret(list, id);
    redraw();
    focusOnRow([id]);
  };
  list.secrets.set(id, newKey({ made: { ...output, id, name }, isInRow: true, saved }));
}

async function showMore(list) {
  const { keys, callTool, source, cursor } = list;
  const { output, failure } = await callTool(source.tool, { ...source.args, cursor });
  if (list.keys !== keys) return; // a newer list came meanwhile
  if (!Array.isArray(output?.keys)) return change(list, { status: failure });
  const added = output.keys.flatMap(readKey);
  Object.assign(list, { keys: [...keys, ...added], cursor: textOrNull(output.nextCursor), status: '' });
  bringUpToDate(list);
  if (list.cursor === null) focusOnRow([added[0]?.id]);
}

function viewOf(list) {
  const { title, hints, keys, search, instead, status } = list;
  if (instead !== '') return html`<div class="empty">${instead}</div>`;
  const head = h(HEADING, { at: 'title', tabindex: -1 }, keys.length === 0 ? 'No API keys yet' : title);
  if (keys.length === 0) {
    return html`<section class="empty" at="list" tabindex="-1">
      ${icon('key')}${head}${hints}<span class="sr" role="status">${status}</span>
    </section>`;
  }
  const shown = shownOf(list);
  const scrolls = setup.url === null && { role: 'region', 'aria-label': 'Keys', tabindex: 0 }; // within its own height
  const rows = html`<ul role="list" aria-label="Keys">${shown.map((key) => rowOf(list, key))}</ul>`;
  return html`<section class="keys" at="list" tabindex="-1">
    <header class="field">
      ${head}
      ${(keys.length >= TOOLS_FROM || search !== '') && toolsOf(list)}
      ${statesOf(list)}
    </header>
    ${h('div', { class: 'scroll', ...scrolls }, rows, shown.length === 0 && html`<p class="empty hint">No key matches.</p>`)}
    ${footerOf(list, shown.length)}
  </section>`;
}

const toolsOf = (list) => html`<div class="line">
  <input type="search" at="search" placeholder="Search" aria-label="Search names, scopes and ids"
    oninput=${({ target }) => change(list, { search: target.value })} />
  <select at="order" aria-label="Sort by" onchange=${({ target }) => change(list, { order: target.value })}>
    ${Object.keys(ORDERS).map((name) => html`<option value=${name}>Sort: ${name}</option>`)}
  </select>
</div>`;

function statesOf(list) {
  const { keys, only } = list;
  const button = (state, label, number) =>
    pill(`state ${state}`, html`${label} ${inWords(number)}`, state === only, () => change(list, { only: state }));
  const counts = Object.entries(STATES).map(([state, [label]]) => {
    const number = keys.filter((key) => key.state === state).length;
    return number > 0 && button(state, label, number);
  });
  return html`<div class="pills line" role="group" aria-label="Show keys by state">
    ${button(null, 'All', keys.length)}${counts}
  </div>`;
}

function footerOf(list, count) {
  const { keys, cursor, callTool, status } = list;
  const number = `${inWords(keys.length)} ${keys.length === 1 ? 'key' : 'keys'}`;
  const total = cursor === null ? number : `the newest ${number}`;
  const counted = count === keys.length ? total.replace('the', 'The') : `${inWords(count)} of ${total}`;
  const more = { at: 'more', label: 'Show more', doing: 'Loading…', act: () => showMore(list) };
  return html`<footer class="line hint">
    <span role="status">${counted}</span><span class="end" role="status">${status}</span>${cursor !== null && callTool && workButton(more)}
  </footer>`;
}
