// The list of keys: shows, sorts, filters and asks. Its markup is in api-keys-list.html.

import { connect } from './bridge.js';
import {
  byId,
  dateFormat,
  element,
  failureOf,
  icon,
  outputOf,
  showMessage,
  showName,
  showScopes,
  timeElement,
} from './dom.js';
import { isEnded, readKey, stateOf } from './listed-key.js';
import { isUnderWay, readRotation, rotationWords } from './rotation.js';
import { ACTIONS, ask } from './row-question.js';
import { forgetNewKey, forgetNewKeys, moveNewKeys, showNewKey } from './row-secret.js';
import { usesLine } from './uses.js';

const TOOLS_FROM = 8; // fewer keys can be seen at a glance
const WHOLE_MAX = 30; // on a page that many stand one below the other; more scroll in the widget
const FADE_MS = 200;
const REFRESH_MS = 60_000; // words like "5 minutes ago" grow old while the chat stays open
const STATES = new Map([
  ['active', 'Active'],
  ['soon', 'Expires soon'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
]);
const RANK = [...STATES.keys()];
const COLUMNS = [
  ['name', 'Name', 1, (key) => key.name],
  ['state', 'State', 1, (key) => RANK.indexOf(key.state)],
  ['created', 'Created', -1, (key) => key.createdAt ?? -Infinity],
  ['expires', 'Expires', 1, (key) => key.expiresAt ?? Infinity],
  ['used', 'Last used', -1, (key) => key.lastUsedAt ?? -Infinity],
];
const { compare } = new Intl.Collator('en', { numeric: true });

let bridge;
let formats; // of times: `exact`, and `short`
let refreshing;
let keys = []; // as listed, each with its row
let source = { tool: 'list_api_keys', args: {} }; // of further pages
let cursor = null; // of the next page; null: these are all
let order = { column: 'created', direction: -1 };
let only = null; // a state, or null: all

const showTime = (cell, atMs, nowMs) =>
  cell.replaceChildren(atMs === null ? 'Never' : timeElement(atMs, nowMs, formats.exact));

function addRow(key) {
  key.row = byId('row').content.firstElementChild.cloneNode(true);
  showName(key.row.querySelector('.name'), key.name);
  showScopes(key.row.querySelector('.scopes'), key.scopes, 4);
  const uses = usesLine(key);
  if (uses !== null) key.row.querySelector('.rotation').before(uses);
  for (const [kind, { verb }] of Object.entries(ACTIONS)) {
    const button = key.row.querySelector(`.${kind}`);
    button.ariaLabel = `${verb} ${key.name}`;
    button.onclick = () => ask(key, kind, button, { callTool: bridge.callTool, finished, formats });
  }
  if (key.owner !== null) {
    // An admin may revoke it, and no more.
    const owner = element('p', 'owner', 'of ');
    const name = element('span', '');
    showName(name, key.owner);
    owner.append(name);
    key.row.querySelector('details').after(owner);
    for (const button of key.row.querySelectorAll('.rotate, .delete')) button.remove();
  }
  if (!bridge.canCallTools) key.row.querySelector('.buttons').remove();
  key.row.querySelector('details').ontoggle = () => showDetails(key);
}

/** What tells the key from others, for a reader who has found one. */
function showDetails({ row, id, fingerprint, rotation }) {
  const isNew = rotation?.state === 'overlapping';
  const details = rotation
    ? [
        ['Fingerprint, old key', isNew ? rotation.otherFingerprint : fingerprint],
        ['Fingerprint, new key', isNew ? fingerprint : rotation.otherFingerprint],
      ]
    : [['Fingerprint', fingerprint]];
  const shown = [['Id', id], ...details].filter(([, value]) => value !== null);
  row
    .querySelector('dl')
    .replaceChildren(...shown.flatMap(([term, value]) => [element('dt', '', term), element('dd', '', value)]));
}

function showRotation(key, nowMs) {
  if (key.rotation && (isEnded(key) || !isUnderWay(key.rotation, nowMs))) {
    key.rotation = null;
    showDetails(key);
  }
  const sentence = key.row.querySelector('.rotation');
  sentence.hidden = key.rotation === null;
  if (key.rotation === null) return sentence.replaceChildren();
  sentence.replaceChildren(icon('rotate'), element('span', '', ...rotationWords(key.rotation, nowMs, formats)));
}

function refreshRow(key, nowMs) {
  const { row } = key;
  const cells = row.querySelectorAll('.when');
  showTime(cells[0], key.createdAt, nowMs);
  showTime(cells[1], key.expiresAt, nowMs);
  showTime(cells[2], key.lastUsedAt, nowMs);
  const state = stateOf(key, nowMs);
  if (state !== key.state) {
    key.state = state;
    row.className = isEnded(key) ? `${state} ended` : state;
    row.querySelector('.state').replaceChildren(icon(state), STATES.get(state));
    for (const button of row.querySelectorAll('.rotate, .revoke')) button.hidden = isEnded(key);
  }
  showRotation(key, nowMs);
}

function refresh() {
  const nowMs = Date.now();
  for (const key of keys) refreshRow(key, nowMs);
  showStates();
  filter();
}

function showStates() {
  const counts = new Map([[null, keys.length]]);
  for (const { state } of keys) counts.set(state, (counts.get(state) ?? 0) + 1);
  if (!counts.has(only)) only = null;
  const labels = new Map(
    [[null, 'All'], ...STATES].flatMap(([state, label]) =>
      counts.has(state) ? [[state, `${label} ${counts.get(state).toLocaleString('en')}`]] : [],
    ),
  );
  if ([...labels.values()].join('') === byId('states').textContent) return; // the focus stays where it is
  const states = byId('states');
  const held = states.contains(document.activeElement) ? document.activeElement.value : null;
  states.replaceChildren(
    ...Array.from(labels, ([state, label]) => {
      const button = element('button', '', label);
      button.type = 'button';
      button.value = state ?? 'all';
      button.ariaPressed = String(state === only);
      button.onclick = () => {
        only = state;
        for (const other of states.children) other.ariaPressed = String(other === button);
        filter();
      };
      return button;
    }),
  );
  if (held !== null) (Array.from(states.children).find(({ value }) => value === held) ?? states.firstChild).focus();
}

function filter() {
  const wanted = byId('search').value.trim().toLowerCase();
  let count = 0;
  for (const { row, text, state } of keys) {
    const found = (only === null || state === only) && text.includes(wanted);
    row.hidden = !found && !row.querySelector('.ask, .new-key'); // a response may be on its way there, or has come
    if (!row.hidden) count += 1;
  }
  const number = `${keys.length.toLocaleString('en')} ${keys.length === 1 ? 'key' : 'keys'}`;
  const total = cursor === null ? number : `the newest ${number}`;
  const words = count === keys.length ? total.replace('the', 'The') : `${count.toLocaleString('en')} of ${total}`;
  if (byId('count').textContent !== words) byId('count').textContent = words; // said aloud once
  byId('none').hidden = count > 0;
}

function sort(column, direction) {
  order = { column, direction };
  const [, , , value] = COLUMNS.find(([id]) => id === column);
  const between = (a, b) => (typeof a === 'string' ? compare(a, b) : a < b ? -1 : a > b ? 1 : 0);
  const sorted = keys.toSorted((a, b) => direction * between(value(a), value(b)));
  byId('rows').replaceChildren(...sorted.map(({ row }) => row));
  for (const cell of byId('head').children) {
    if (cell.id === column) cell.ariaSort = direction === 1 ? 'ascending' : 'descending';
    else cell.removeAttribute('aria-sort');
  }
  byId('order').value = column;
}

function showHead() {
  byId('head').replaceChildren(
    ...COLUMNS.map(([id, label, first]) => {
      const button = element('button', '', label);
      button.type = 'button';
      button.onclick = () => sort(id, order.column === id ? -order.direction : first);
      const cell = element('th', '', button);
      cell.id = id;
      cell.role = 'columnheader';
      return cell;
    }),
  );
  const more = element('th', '', element('span', 'sr', 'More'));
  more.role = 'columnheader';
  byId('head').append(more);
  byId('order').replaceChildren(...COLUMNS.map(([id, label]) => new Option(`Sort: ${label.toLowerCase()}`, id)));
}

function focusRow(row) {
  const title = byId(keys.length === 0 ? 'none-yet' : 'title');
  (row === undefined || row.hidden ? title : (row.querySelector('.delete') ?? row.querySelector('summary'))).focus();
}

/** What gives the focus back to the row that has it, once a newer list is shown. */
function focusedRow() {
  const held = document.activeElement;
  const key = document.hasFocus() ? keys.find(({ row }) => row.contains(held)) : undefined;
  return () => {
    if (key === undefined) return;
    if (held.isConnected) held.focus();
    else focusRow(keys.find(({ id }) => id === key.id)?.row);
  };
}

function rotated(key, output) {
  key.rotation = readRotation(output.previous);
  if (key.rotation === null) key.fingerprint = null; // that of the old key, which has ended
  showDetails(key);
  const box = showNewKey(key, output, (row) => {
    filter();
    focusRow(row);
  });
  refresh();
  return box;
}

function finished(asked, kind, output) {
  byId('status').textContent = typeof output.message === 'string' ? output.message : ACTIONS[kind].done;
  const held = asked.row.contains(document.activeElement); // otherwise the person has moved on meanwhile
  asked.row.querySelector('.ask')?.remove();
  const key = keys.find(({ id }) => id === asked.id); // the list may be a newer one
  if (!key) return;
  const rows = Array.from(byId('rows').children).filter((row) => !row.hidden);
  const at = rows.indexOf(key.row);
  if (kind === 'rotate') {
    const box = rotated(key, output);
    if (held) box.querySelector('.copy').focus({ preventScroll: true });
    return box.scrollIntoView({ block: 'nearest' });
  }
  forgetNewKey(key.id);
  if (kind === 'revoke') {
    key.active = false;
    refresh();
    if (held) focusRow(key.row);
    return;
  }
  keys = keys.filter((other) => other !== key);
  key.row.classList.add('leaving');
  setTimeout(() => {
    if (!byId('message').hidden) return; // closed meanwhile
    key.row.remove();
    refresh();
    if (keys.length === 0) showKeys();
    if (held) focusRow(rows[at + 1] ?? rows[at - 1]);
  }, FADE_MS);
}

function add(listed) {
  const added = listed.flatMap(readKey);
  for (const key of added) addRow(key);
  keys = [...keys, ...added];
  refresh();
  sort(order.column, order.direction);
  byId('more').hidden = cursor === null || !bridge.canCallTools;
  return added;
}

const cursorOf = ({ nextCursor }) => (typeof nextCursor === 'string' ? nextCursor : null);

async function showMore() {
  const more = byId('more');
  if (more.ariaDisabled) return;
  const held = keys;
  more.ariaDisabled = 'true';
  more.textContent = 'Loading…';
  let failure = null;
  try {
    const result = await bridge.callTool(source.tool, { ...source.args, cursor });
    if (held[0]?.row.isConnected !== true) return; // a newer list came meanwhile
    const output = outputOf(result);
    if (Array.isArray(output?.keys)) {
      cursor = cursorOf(output);
      const [first] = add(output.keys);
      if (cursor === null) focusRow(first?.row);
    } else failure = failureOf(result);
  } catch (error) {
    failure = error.message;
  } finally {
    more.ariaDisabled = null;
    more.textContent = 'Show more';
  }
  byId('status').textContent = failure ?? '';
}

function showKeys() {
  byId('message').hidden = true;
  byId('empty').hidden = keys.length > 0;
  byId('list').hidden = keys.length === 0;
}

function replaceByMessage(sentence, bad = true) {
  keys = [];
  forgetNewKeys();
  byId('rows').replaceChildren();
  showKeys();
  byId('empty').hidden = true;
  showMessage(sentence, bad);
}

/** On a page of the server, which says whose keys these are. There is no chat to ask in. */
function showAsPart(onPage) {
  source = onPage;
  const { tool, args } = source;
  const areOthers = tool !== 'list_api_keys';
  byId('how').hidden = byId('example').hidden = true;
  byId('empty').classList.toggle('others', areOthers);
  byId('none-yet').textContent = areOthers ? 'No API keys' : 'No API keys yet';
  byId('title').textContent = areOthers ? 'All keys' : 'Your keys';
  if (args.owner === undefined) return;
  const owner = element('span', '');
  showName(owner, args.owner);
  byId('title').replaceChildren('Keys of ', owner);
}

byId('search').oninput = filter;
byId('more').onclick = showMore;
byId('order').onchange = ({ target }) => sort(target.value, COLUMNS.find(([id]) => id === target.value)[2]);

connect('api-keys-list', {
  ready: (connected) => {
    bridge = connected;
    formats = {
      exact: dateFormat(bridge, { dateStyle: 'full', timeStyle: 'long' }),
      short: dateFormat(bridge, { dateStyle: 'medium', timeStyle: 'short' }),
    };
    byId('list').classList.toggle('read-only', !bridge.canCallTools);
    showHead();
    refreshing = setInterval(refresh, REFRESH_MS);
  },
  input: () => {},
  result: (result) => {
    const output = outputOf(result) ?? {};
    const { keys: listed, onPage } = output;
    if (onPage) showAsPart(onPage);
    if (!Array.isArray(listed)) return replaceByMessage(`No keys to show. ${failureOf(result)}`);
    const focusAgain = focusedRow();
    keys = [];
    cursor = cursorOf(output);
    add(listed);
    moveNewKeys(keys);
    filter();
    byId('tools').hidden = keys.length < TOOLS_FROM && byId('search').value === '';
    byId('list').classList.toggle('whole', onPage !== undefined && keys.length <= WHOLE_MAX);
    showKeys();
    focusAgain();
  },
  replaceByMessage,
  close: () => {
    clearInterval(refreshing);
    replaceByMessage('This widget is closed.', false);
  },
});
