// The list of keys: shows, sorts, filters and asks. Its markup is in api-keys-list.html.

import { connect } from './bridge.js';
import {
  byId,
  dateFormat,
  element,
  failureOf,
  icon,
  outputOf,
  problemOf,
  showMessage,
  showName,
  showScopes,
  timeElement,
} from './dom.js';
import { isEnded, readKey, stateOf } from './listed-key.js';
import { showSecret } from './new-key.js';
import {
  isUnderWay,
  KEY_LOST,
  previousWords,
  readRotation,
  refusalWords,
  rotationChoice,
  rotationWords,
} from './rotation.js';
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
const isSuccess = (output) => output?.success === true || typeof output?.revoked === 'number';
const ACTIONS = {
  rotate: {
    tool: 'rotate_api_key',
    verb: 'Rotate',
    doing: 'Rotating…',
    done: 'API key rotated',
    warning: 'It gets a new secret, which is shown here, once.',
    isDone: (output) => typeof output?.key === 'string' && output.key !== '',
  },
  revoke: {
    tool: 'revoke_api_key',
    verb: 'Revoke',
    doing: 'Revoking…',
    done: 'API key revoked',
    warning: 'Programs that use it are refused at once.',
    isDone: isSuccess,
  },
  delete: {
    tool: 'delete_api_key',
    verb: 'Delete',
    doing: 'Deleting…',
    done: 'API key deleted',
    warning: 'It stops working and leaves the list. This cannot be undone.',
    isDone: isSuccess,
  },
};
const { compare } = new Intl.Collator('en', { numeric: true });

let bridge;
let formats; // of times: `exact`, and `short`
let refreshing;
let keys = []; // as listed, each with its row
let source = { tool: 'list_api_keys', args: {} }; // of further pages
let cursor = null; // of the next page; null: these are all
const newKeys = new Map(); // id → the box that shows its new secret, and what forgets that
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
    button.onclick = () => ask(key, kind, button);
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

/** Asks in the row itself whether to go on, and shows the result or the failure there. */
function ask(key, kind, opener) {
  const asked = key.row.querySelector('.ask');
  if (asked?.querySelector('[aria-disabled]')) return; // the response to that one comes first
  asked?.remove();
  const { tool, verb, doing, warning, isDone } = ACTIONS[kind];
  const name = element('b', '');
  showName(name, key.name);
  const kinds = kind === 'rotate' ? rotationChoice(`rotate ${key.id}`) : null;
  const replaces = kinds && key.rotation?.state === 'until_first_use' ? ' The new one that was not used yet ends.' : '';
  const question = [`${verb} `, name, `? ${warning}${replaces}`];
  const sentence = element('p', '', ...question);
  const go = element('button', kinds ? 'solid' : 'solid ends', verb);
  const cancel = element('button', '', 'Cancel');
  const box = element('div', 'ask', sentence, ...(kinds ? [kinds] : []), element('div', '', go, cancel));
  box.role = 'group';
  box.ariaLabel = `${verb} ${key.name}?`;
  go.type = cancel.type = 'button';
  cancel.ariaDescribedByElements = [sentence]; // it gets the focus first, unless there is a choice
  let busy = false;
  cancel.onclick = () => {
    box.remove();
    opener.focus();
  };
  box.onkeydown = (event) => {
    if (event.key === 'Escape' && !busy) cancel.onclick();
  };
  go.onclick = async () => {
    if (busy) return;
    busy = true;
    go.ariaDisabled = 'true';
    go.textContent = doing;
    cancel.hidden = true;
    if (kinds) kinds.disabled = true;
    byId('status').replaceChildren();
    sentence.className = '';
    sentence.role = null;
    sentence.replaceChildren(...question);
    let failure;
    try {
      const chosen = kinds && { overlapHours: Number(kinds.querySelector(':checked').value) };
      const result =
        key.owner === null
          ? await bridge.callTool(tool, { keyId: key.id, ...chosen })
          : await bridge.callTool('admin_revoke_keys', { keyIds: [key.id] });
      const output = outputOf(result);
      if (isDone(output)) return finished(key, kind, output);
      failure = kinds && output ? KEY_LOST : (refusalWords(problemOf(result), formats) ?? failureOf(result));
    } catch (error) {
      failure = error.message;
    }
    busy = false;
    if (kinds) kinds.disabled = false;
    go.ariaDisabled = null;
    go.textContent = 'Try again';
    cancel.hidden = false;
    sentence.className = 'sentence bad';
    sentence.role = 'alert';
    sentence.replaceChildren(icon('warn'), failure);
  };
  key.row.querySelector('.row-end').append(box);
  (kinds?.querySelector(':checked') ?? cancel).focus({ preventScroll: true });
  key.row.scrollIntoView({ block: 'nearest' });
}

/** Shows the new secret in the row, until it is saved, ended, or the widget closes. */
function showNewKey({ id, name, row }, { key: secret, warning, previous }) {
  forgetNewKey(id);
  const box = byId('new-key').content.firstElementChild.cloneNode(true);
  const [code, toggle, copy, status] = ['code', '.show', '.copy', '.status'].map((part) => box.querySelector(part));
  box.ariaLabel = `New key of ${name}`;
  box.querySelector('.save').textContent = String(warning ?? 'Save this key now - it will not be shown again');
  box.querySelector('.old').textContent = `The old key ${previousWords(previous) ?? 'is replaced.'}`;
  const forget = showSecret(secret, { toggle, boxes: [{ code, copy, status }] });
  newKeys.set(id, { box, forget });
  box.querySelector('.saved').onclick = () => {
    const shown = box.closest('tr'); // that of a newer list, perhaps
    forgetNewKey(id);
    filter();
    focusRow(shown);
  };
  row.querySelector('.row-end').append(box);
}

function forgetNewKey(id) {
  const shown = newKeys.get(id);
  newKeys.delete(id);
  shown?.forget();
  shown?.box.remove();
}

/** Into a newer list, or away with those whose key is in it no more. */
function moveNewKeys() {
  for (const [id, { box }] of newKeys) {
    const key = keys.find((listed) => listed.id === id);
    if (key) key.row.querySelector('.row-end').append(box);
    else forgetNewKey(id);
  }
}

function focusRow(row) {
  const title = byId(keys.length === 0 ? 'none-yet' : 'title');
  (row === undefined || row.hidden ? title : (row.querySelector('.delete') ?? row.querySelector('summary'))).focus();
}

function rotated(key, output) {
  key.rotation = readRotation(output.previous);
  if (key.rotation === null) key.fingerprint = null; // that of the old key, which has ended
  showDetails(key);
  showNewKey(key, output);
  refresh();
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
    rotated(key, output);
    const { box } = newKeys.get(key.id);
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
  for (const id of newKeys.keys()) forgetNewKey(id);
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
    keys = [];
    cursor = cursorOf(output);
    add(listed);
    moveNewKeys();
    filter();
    byId('tools').hidden = keys.length < TOOLS_FROM && byId('search').value === '';
    byId('list').classList.toggle('whole', onPage !== undefined && keys.length <= WHOLE_MAX);
    showKeys();
  },
  replaceByMessage,
  close: () => {
    clearInterval(refreshing);
    replaceByMessage('This widget is closed.', false);
  },
});
