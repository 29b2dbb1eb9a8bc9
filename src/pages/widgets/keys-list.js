// The list of keys, for the widget and for the page: shows, sorts, filters, and asks before it changes a key.

import { focusOn, isFocusIn } from './draw.js';
import { h, html } from './html.js';
import { keyRow, STATES } from './key-row.js';
import { readKey, readRotation, stateOf } from './listed-key.js';
import { newKey } from './new-key.js';
import { icon, inWords, workButton } from './parts.js';
import { ACTIONS, askAbout, firstIn } from './question.js';

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
 * `callTool` null: nothing can be changed from here. `source`: the tool that lists, and its arguments. `title`, `none`:
 * whose keys these are, and what is said where there are none. `refused`: how soon an ended key is. `serverUrl` null:
 * not known. `scrolls`: within its own height. It is drawn by `redraw`.
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
    isLoading: false,
    status: '',
    nowMs: 0,
  };
  const ticking = setInterval(() => bringUpToDate(list), REFRESH_MS);
  return {
    view: () => viewOf(list),
    ids: () => list.keys.map(({ id }) => id),
    take(output) {
      list.keys = output.keys.flatMap(readKey);
      list.cursor = cursorOf(output);
      for (const id of list.secrets.keys()) if (!isListed(list, id)) forgetSecret(list, id);
      bringUpToDate(list);
    },
    close() {
      clearInterval(ticking);
      for (const id of list.secrets.keys()) forgetSecret(list, id);
    },
  };
}

const isListed = ({ keys }, wanted) => keys.some(({ id }) => id === wanted);
const cursorOf = ({ nextCursor }) => (typeof nextCursor === 'string' ? nextCursor : null);

function change(list, changed) {
  Object.assign(list, changed);
  list.redraw();
}

function forgetSecret({ secrets }, id) {
  secrets.get(id)?.close();
  secrets.delete(id);
}

/** States and words follow the time. */
function bringUpToDate(list) {
  list.nowMs = Date.now();
  for (const key of list.keys) Object.assign(key, { state: stateOf(key, list.nowMs), drawn: null });
  if (!list.keys.some(({ state }) => state === list.only)) list.only = null;
  list.redraw();
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
  const { nowMs, formats, callTool, questions, secrets } = list;
  const below = [questions, secrets].map((shown) => shown.get(key.id)?.view()).filter(Boolean);
  const ask = callTool && ((kind) => askIn(list, key, kind));
  const row = (below.length === 0 && key.drawn) || keyRow(key, { nowMs, formats, ask, below });
  key.drawn = below.length === 0 ? row : null;
  return row;
}

function askIn(list, key, kind) {
  const { questions } = list;
  if (questions.get(key.id)?.isBusy()) return; // the response to that one comes first
  for (const [id, { isBusy }] of questions) if (!isBusy()) questions.delete(id);
  const question = askAbout(key, kind, {
    ...list,
    redraw(failure) {
      if (failure && !isListed(list, key.id)) list.status = failure;
      list.redraw();
    },
    done: (output) => finish(list, key.id, kind, output),
    close() {
      questions.delete(key.id);
      list.redraw();
      focusOn(`${kind} ${key.id}`);
    },
  });
  questions.set(key.id, question);
  change(list, { status: '' });
  focusOn(firstIn(kind, key.id));
}

/** The list may be a newer one by now, and the person elsewhere. */
function finish(list, id, kind, output) {
  const hadFocus = isFocusIn(`row ${id}`);
  const order = shownOf(list).map((key) => key.id);
  const key = list.keys.find((listed) => listed.id === id);
  list.questions.delete(id);
  list.status = typeof output.message === 'string' ? output.message : ACTIONS[kind].done;
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
    list.redraw();
    focusOnRow([id]);
  };
  list.secrets.set(id, newKey({ ...list, made: { ...output, id, name }, heading: null, saved }));
}

async function showMore(list) {
  const { isLoading, keys, callTool, source, cursor } = list;
  if (isLoading) return;
  change(list, { isLoading: true });
  const { output, failure } = await callTool(source.tool, { ...source.args, cursor });
  list.isLoading = false;
  if (list.keys !== keys) return list.redraw(); // a newer list came meanwhile
  if (!Array.isArray(output?.keys)) return change(list, { status: failure });
  const added = output.keys.flatMap(readKey);
  Object.assign(list, { keys: [...keys, ...added], cursor: cursorOf(output), status: '' });
  bringUpToDate(list);
  if (list.cursor === null) focusOnRow([added[0]?.id]);
}

function viewOf(list) {
  const { heading, title, none, scrolls, keys, search, status } = list;
  const head = h(heading, { at: 'title', tabindex: -1 }, keys.length === 0 ? none.title : title);
  if (keys.length === 0) {
    return html`<section class="empty" at="list" tabindex="-1">
      ${icon('key')}${head}${none.hints}<span class="sr" role="status">${status}</span>
    </section>`;
  }
  const shown = shownOf(list);
  const region = scrolls && { role: 'region', 'aria-label': 'Keys', tabindex: 0 };
  const rows = html`<ul role="list" aria-label="Keys">${shown.map((key) => rowOf(list, key))}</ul>`;
  return html`<section class="keys" at="list" tabindex="-1">
    <header>
      ${head}
      ${(keys.length >= TOOLS_FROM || search !== '') && toolsOf(list)}
      ${statesOf(list)}
    </header>
    ${h('div', { class: 'scroll', ...region }, rows, shown.length === 0 && html`<p class="empty hint">No key matches.</p>`)}
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
  const button = (state, label, number) => html`<button type="button" at=${`state ${state}`}
    aria-pressed=${String(state === only)} onclick=${() => change(list, { only: state })}>
    ${label} ${inWords(number)}
  </button>`;
  const counts = Object.entries(STATES).map(([state, label]) => {
    const number = keys.filter((key) => key.state === state).length;
    return number > 0 && button(state, label, number);
  });
  return html`<div class="pills line" role="group" aria-label="Show keys by state">
    ${button(null, 'All', keys.length)}${counts}
  </div>`;
}

function footerOf(list, count) {
  const { keys, cursor, callTool, status, isLoading } = list;
  const number = `${inWords(keys.length)} ${keys.length === 1 ? 'key' : 'keys'}`;
  const total = cursor === null ? number : `the newest ${number}`;
  const counted = count === keys.length ? total.replace('the', 'The') : `${inWords(count)} of ${total}`;
  const more = workButton(isLoading, 'Show more', 'Loading…', { at: 'more', onclick: () => showMore(list) });
  return html`<footer class="line hint">
    <span role="status">${counted}</span><span role="status">${status}</span>${cursor !== null && callTool && more}
  </footer>`;
}
