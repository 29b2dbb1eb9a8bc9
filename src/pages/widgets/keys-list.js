// The list of keys in the widget and on the page: loads, sorts and filters it, and asks before it changes a key.

import { change, find, focusOn, hasFocus, redraw } from './draw.js';
import { keyRow, readKey, readRotation, stateOf, textOrNull } from './key-row.js';
import { listView, ORDERS } from './list-view.js';
import { newKey } from './new-key.js';
import { readPlan } from './owner-line.js';
import { complaint, countWords, formats, inWords, isTime } from './parts.js';
import { askAbout, firstIn, OWN_CALLS } from './question.js';

const REFRESH_MS = 60_000; // words like "5 minutes ago" grow old

/**
 * Creates the list of keys. If `callTool` is null, nothing can be changed. `source` is the tool that lists, and its
 * arguments; `calls` return, by kind, those that change a key, by default its owner's. `title` says whose keys these are,
 * `hints` what to do if there are none. `own({ replace, count })` returns what else may be done with a key
 * (doors/page/key-panel.js). `hashOf(text)` resolves with the SHA-256 of a whole key, so that the search finds it;
 * `seek(key)` takes one that is looked for elsewhere; without both the search takes none. Further options: the first
 * `order`, `none` (the heading if there are no keys), `took(output, isFirst)` (takes each page), `counted(count, isWhole)`
 * and `moreWords` (words below the list).
 */
export function keysList(options) {
  const list = {
    calls: OWN_CALLS,
    ...options,
    keys: [], // as listed
    plan: null, // the limits of all of them together
    cursor: null, // of the next page; null: these are all
    search: '',
    only: null, // a state, or null: all
    replaced: null, // the last changed key, with the search and state at that time
    order: options.order ?? 'created',
    questions: new Map(), // by key id: the open one, and those that await a response
    secrets: new Map(), // new secrets of rotated keys, by id
    instead: 'Loading keys…', // shown if the keys can't be
    loading: null, // the latest request, while it is pending
    status: '', // what is told: words, or a complaint
    opened: new Set(), // ids of rows
    sought: null, // what is another object for each search
    said: '', // the result of searching for a whole key: words, a complaint, or { id, more } of the found one
  };
  list.own =
    options.own?.({
      replace: (id, item, said) => replace(list, id, item, said),
      /** Notes how many good keys a key has made. */
      count: (id, children) => Object.assign(keyOf(list, id) ?? {}, { children }),
    }) ?? null;
  const ticking = setInterval(() => refresh(list), REFRESH_MS);
  return {
    view: () => listView(list, { shown: shownOf(list), rowOf, showMore, search }),
    load: () => load(list),
    refresh: async () =>
      (await load(list)) && change(list, { status: `Refreshed at ${formats.time.format(Date.now())}` }),
    take: (result) => take(list, result),
    /** Returns words like `2 of 2 keys` if no more can be made, else null. */
    full: () => fullWords(list),
    reveal: (item, more) => reveal(list, item, more),
    center,
    ids: () => list.keys.map(({ id }) => id),
    holdsSecrets: () => list.secrets.size > 0,
    close() {
      clearInterval(ticking);
      list.loading = null;
      for (const id of list.secrets.keys()) forgetSecret(list, id);
    },
  };
}

/** Loads the list, and shows it unless a newer request began meanwhile. Resolves with whether it is current. */
async function load(list, status = '') {
  const { callTool, source } = list;
  const loading = callTool(source.tool, source.args);
  change(list, { loading, status });
  const result = await loading;
  if (list.loading !== loading) return false;
  take(list, result);
  return result.output !== null;
}

/**
 * Takes the tool's result (parts.js). A failure removes no keys, because one may show a new secret; nor does a first
 * page remove later keys that do, or may soon, or whose row is open.
 */
function take(list, { output, failure, status }) {
  list.loading = null;
  if (status === 401) return; // the list is loaded after the next sign-in
  if (output !== null) {
    list.took?.(output, true);
    const plan = readPlan(output.owner);
    const cursor = textOrNull(output.nextCursor);
    const isKept = ({ id }) =>
      cursor !== null && [list.secrets, list.questions, list.opened].some((ids) => ids.has(id));
    const keys = withKeys(list.keys.filter(isKept), output);
    Object.assign(list, { keys, plan, cursor, instead: '' });
    for (const id of list.secrets.keys()) if (keyOf(list, id) === undefined) forgetSecret(list, id);
    for (const id of list.opened) {
      const key = keyOf(list, id);
      if (key) list.own?.readAgain(key);
      else toggle(list, id);
    }
    refresh(list);
  } else if (list.instead === '') change(list, { status: complaint(`The list could not be refreshed. ${failure}`) });
  else change(list, { instead: complaint(`No keys to show. ${failure}`) });
}

/** Returns the keys followed by those of a page, which replace older versions. */
function withKeys(keys, page) {
  const added = page.keys.flatMap(readKey);
  const ids = new Set(added.map(({ id }) => id));
  return [...keys.filter(({ id }) => !ids.has(id)), ...added];
}

function fullWords({ plan, keys }) {
  if (plan === null || keys.length < plan.keysMax) return null;
  return `${inWords(keys.length)} of ${countWords(plan.keysMax)}`;
}

const keyOf = ({ keys }, wanted) => keys.find(({ id }) => id === wanted);

function forgetSecret({ secrets }, id) {
  secrets.get(id)?.close();
  secrets.delete(id);
}

/** Updates states and relative times. */
function refresh(list) {
  const nowMs = Date.now();
  for (const key of list.keys) Object.assign(key, { state: stateOf(key, nowMs), drawn: null });
  if (!list.keys.some(({ state }) => state === list.only)) list.only = null;
  redraw();
}

/**
 * Returns the shown keys, in order. Keys with a question, an edit or a new secret are among them, and a changed key stays
 * until the search or state changes.
 */
function shownOf({ keys, search, only, order, questions, secrets, own, replaced }) {
  const wanted = search.trim().toLowerCase();
  const kept = replaced?.search === search && replaced.only === only ? replaced.id : null;
  return keys
    .filter(
      ({ id, state, text }) =>
        ((only === null || state === only) && text.includes(wanted)) ||
        questions.has(id) ||
        own?.isAsking(id) ||
        secrets.has(id) ||
        id === kept,
    )
    .sort(ORDERS[order]);
}

/** Draws a key's row, memoized while nothing in it changes, because there may be a thousand. */
function rowOf(list, key) {
  const { id } = key;
  const isOpen = list.opened.has(id);
  const below = [list.questions, list.secrets].map((shown) => shown.get(id)?.view()).filter(Boolean);
  const ask = list.callTool && ((kind) => askIn(list, key, kind));
  const isPlain = below.length === 0 && !isOpen;
  const own = isOpen ? list.own : null;
  const isAsked = list.questions.has(id) || own?.isAsking(id);
  const whose = list.source.args.owner === undefined ? key.owner : null;
  const kinds = Object.keys(list.calls);
  const actions = { ask, kinds, isOpen, isAsked, toggle: () => toggle(list, id), own, whose };
  const row = (isPlain && key.drawn) || keyRow(key, actions, below);
  key.drawn = isPlain ? row : null;
  return row;
}

function toggle(list, id) {
  const { opened, own } = list;
  if (opened.delete(id)) own?.close(id);
  else {
    opened.add(id);
    own?.open(keyOf(list, id));
  }
  redraw();
  if (!opened.has(id)) focusOn(`details ${id}`);
}

function replace(list, id, item, status = 'API key changed') {
  const key = keyOf(list, id);
  if (key) Object.assign(key, ...readKey(item));
  const { search, only } = list;
  Object.assign(list, { status, replaced: { id, search, only } });
  refresh(list);
}

/** Searches. A whole key is forgotten at once, and looked for. So is a pasted text in no row, until a later page has it. */
async function search(list, field, isPasted) {
  const { hashOf, seek } = list;
  const text = field.value.trim();
  const isListed = () => list.keys.some((key) => key.text.includes(text.toLowerCase()));
  const isOther = hashOf && isPasted && ANY_KEY.test(text) && !isListed();
  const [key] = ((hashOf ?? seek) && KEY.exec(text)) ?? (isOther ? [text] : []);
  const sought = {};
  list.sought = sought;
  if (key === undefined) return change(list, { search: field.value, said: '' });
  field.value = '';
  change(list, { search: '', said: seek ? '' : 'Looking for it…' });
  if (seek) return seek(key);
  const hash = await hashOf(key);
  const found = hash && (await findByHash(list, hash));
  if (list.sought !== sought) return; // the person looks for something else
  if (found) {
    list.only = null;
    show(list, found.id, '', [field, document.body].includes(document.activeElement));
  } else if (isListed()) {
    field.value = text;
    change(list, { search: text, said: '' });
  } else if (hash === null) change(list, { said: complaint('This browser can’t tell: it needs HTTPS.') });
  else change(list, { said: found === null ? complaint(UNLISTED) : NONE + oddWords(key) });
}

const NONE = 'None of your keys: deleted, another person’s, or one that a key has made.';
const UNLISTED = 'Not found yet, as not all keys could be listed. Try again.';

/**
 * Says which key was found, opens its row, and focuses its panel: Enter, pressed by habit, must not close it again.
 * `isAwaited`: the person does nothing else by now.
 */
function show(list, id, more = '', isAwaited = true) {
  list.said = { id, more };
  if (!list.opened.has(id)) toggle(list, id);
  else redraw();
  if (isAwaited) focusOn(`panel ${id}`);
  center(id);
}

/** Scrolls to a row, unless the focus has left it. Its first line counts: the row may be higher than the window. */
function center(id) {
  const row = find(`row ${id}`);
  if (row?.contains(document.activeElement)) row.firstElementChild.scrollIntoView({ block: 'center' });
}

/** Shows a key with its row open, on whichever page of the list it is. */
function reveal(list, item, more) {
  Object.assign(list, { keys: withKeys(list.keys, { keys: [item] }), instead: '' });
  refresh(list);
  show(list, item.id, more);
}

/** A key of this server, also within other text, as in a header. */
export const KEY = /[a-z0-9]{2,12}_(?:live|test)_[0-9a-f]{64}(?!\w)/;
const BEGINNING = /[a-z0-9]{2,12}_(?:live|test)_/;
/** Returns a sentence about a text that only begins like a key; an empty one if it doesn't. */
export const oddWords = (text) =>
  BEGINNING.test(text) && !KEY.test(text)
    ? ' It is not a whole key of this server, which ends with 64 digits, 0 to f.'
    : '';
/** A key that was imported may have any form. */
const ANY_KEY = /^[^\s\p{C}]{20,}$/u;

/**
 * Resolves with the key that has a secret of this hash, on any page; undefined if there is none, null if not all pages
 * could be loaded. Reloads the list first if no shown key fits.
 */
async function findByHash(list, hash) {
  const isOf = ({ fingerprint, rotation }) =>
    [fingerprint, rotation?.otherFingerprint].some((part) => part && hash.startsWith(part));
  if (!list.keys.some(isOf) && !(await load(list))) return null;
  for (;;) {
    const found = list.keys.find(isOf);
    if (found || list.cursor === null) return found;
    const { cursor } = list;
    await showMore(list);
    if (list.cursor === cursor) return null;
  }
}

function askIn(list, key, kind) {
  const { questions, callTool, calls } = list;
  const { id } = key;
  if (questions.get(id)?.isBusy()) return; // await its response first
  for (const [other, { isBusy }] of questions) if (!isBusy()) questions.delete(other);
  const question = askAbout(key, kind, {
    callTool,
    calls,
    done(output) {
      finish(list, id, kind, output);
      if (list.loading !== null) void load(list, list.status); // that response may be stale
    },
    missed(failure) {
      if (keyOf(list, id) === undefined) list.status = complaint(failure);
    },
    close() {
      questions.delete(id);
      redraw();
      if (!focusOn(`${kind} ${id}`)) focusOn(`details ${id}`);
    },
  });
  questions.set(id, question);
  change(list, { status: '' });
  focusOn(firstIn(kind, id));
}

/** Shows a successful change. Meanwhile the list may have been reloaded, and the focus moved. */
function finish(list, id, kind, output) {
  const hadFocus = hasFocus(`row ${id}`);
  const order = shownOf(list).map((key) => key.id);
  const key = keyOf(list, id);
  list.questions.delete(id);
  list.status = typeof output.message === 'string' ? output.message : `API key ${kind}d`;
  list.said = ''; // that it was found is known
  forgetSecret(list, id);
  if (kind === 'delete') list.keys = list.keys.filter((listed) => listed !== key);
  else if (kind === 'revoke' && key) key.active = false;
  else if (key) keepSecret(list, key, output);
  if (kind !== 'delete') list.own?.readHistory(id);
  refresh(list);
  if (!hadFocus) return;
  if (kind === 'rotate') return focusOn(list.secrets.get(id)?.copyButton);
  const next = order.indexOf(id) + 1;
  focusOnRow(kind === 'delete' ? [order[next], order[next - 2]] : [id]);
}

const focusOnRow = (ids) => ids.some((id) => focusOn(`delete ${id}`) || focusOn(`details ${id}`)) || focusOn('title');

function keepSecret(list, key, output) {
  const { id, name } = key;
  key.rotation = readRotation(output.previous);
  if (isTime(output.expiresAt)) key.expiresAt = output.expiresAt;
  if (key.rotation === null) key.fingerprint = null; // it is that of the old key, which has ended
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
  if (list.keys !== keys) return; // a newer list arrived meanwhile
  if (!Array.isArray(output?.keys)) return change(list, { status: complaint(failure) });
  const hadFocus = hasFocus('more');
  list.took?.(output, false);
  Object.assign(list, { keys: withKeys(keys, output), cursor: textOrNull(output.nextCursor), status: '' });
  redraw();
  if (hadFocus && list.cursor === null) focusOnRow([output.keys[0]?.id]);
}
