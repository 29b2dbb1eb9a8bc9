// What owners can do with a key beside the tools: rename it, remove scopes, end it earlier, and read its history.

import { focusOn, html, redraw } from '../widgets/draw.js';
import { busily, complaint, daysOffered, inDays, nameOf, timeOf, workButton } from '../widgets/parts.js';
import { ownChildren, UNREAD } from './own-children.js';

const DAY_MS = 86_400_000;
const EDITS = { name: 'Rename', scopes: 'Fewer scopes', end: 'End sooner' };
const IS_IN_USE = ['active', 'soon'];

/**
 * Creates the owner's actions. `request(path, body)` calls the server. `replace(id, item)` replaces a shown key with
 * the item that the server returned.
 */
export function ownKeys({ request, replace }) {
  const own = { request, replace, states: new Map() }; // by id of an open key: { edit, failure, events, cursor, instead }
  return {
    open({ id, children: count }) {
      const children = childrenOf(own, id);
      own.states.set(id, {
        edit: null,
        events: [],
        cursor: undefined,
        instead: 'Loading…',
        children,
        made: { children: [] },
      });
      void readHistory(own, id);
      if (count > 0) void children.read();
    },
    /** Reloads what could not be loaded of an open key. */
    readAgain(id) {
      const { instead, made, children } = stateOf(own, id);
      if (instead) void readHistory(own, id);
      if (made?.failure) void children.read();
    },
    /** Loads the history of a key, if it is open. */
    readHistory: (id) => own.states.has(id) && void readHistory(own, id),
    close: (id) => own.states.delete(id),
    nameView: (key) => stateOf(own, key.id).edit === 'name' && nameForm(own, key),
    editView(key) {
      const { edit } = stateOf(own, key.id);
      return edit === 'scopes' ? scopesForm(own, key) : edit === 'end' && endForm(own, key);
    },
    buttons: (key) => IS_IN_USE.includes(key.state) && editsOf(key).map((edit) => editButton(own, key, edit)),
    historyView: (key) => historyView(own, key.id),
    childrenView: ({ id, children: count }) => count > 0 && stateOf(own, id).children?.view(),
  };
}

const stateOf = ({ states }, id) => states.get(id) ?? {};

function change(own, id, changed, ...places) {
  if (!own.states.has(id)) return; // closed meanwhile
  own.states.set(id, { ...stateOf(own, id), ...changed });
  redraw();
  places.some(focusOn);
}

const childrenOf = (own, id) =>
  ownChildren({
    id,
    request: own.request,
    state: () => stateOf(own, id).made,
    change: (changed, ...places) => change(own, id, { made: { ...stateOf(own, id).made, ...changed } }, ...places),
  });

async function readHistory(own, id, cursor) {
  const { output, failure } = await own.request('/keys/events', { keyId: id, cursor });
  if (!Array.isArray(output?.events)) return change(own, id, { instead: failure || UNREAD });
  const before = cursor === undefined ? [] : stateOf(own, id).events;
  change(own, id, { events: [...before, ...output.events], cursor: output.nextCursor, instead: '' });
}

async function save(own, id, edit, fields) {
  const { output, failure } = await own.request('/keys/update', { keyId: id, ...fields });
  if (output === null) return change(own, id, { failure });
  own.replace(id, output);
  change(own, id, { edit: null, failure: undefined }, `${edit} ${id}`, `details ${id}`);
  await readHistory(own, id);
}

const editsOf = ({ scopes }) => Object.keys(EDITS).filter((edit) => edit !== 'scopes' || scopes.length > 0);

/** Returns the place that gets the focus when an edit begins. */
const firstIn = (edit, { id, scopes: [first] }) =>
  ({ name: `new name ${id}`, scopes: placeOf(first, id), end: `days ${id}` })[edit];

/** Returns the place of a scope's checkbox. */
const placeOf = (scope, id) => `scope ${scope} of ${id}`;

function editButton(own, key, edit) {
  const { id, name } = key;
  const begin = () => change(own, id, { edit, failure: undefined }, firstIn(edit, key));
  return html`<button type="button" at="${edit} ${id}" aria-label="${EDITS[edit]}: ${name}" onclick=${begin}>
    ${EDITS[edit]}
  </button>`;
}

/** Draws the form of an edit. `read(form)` returns the fields to send; null to send nothing. */
function formOf(own, id, edit, { read, words, fields }) {
  const send = ({ target }) => {
    const wanted = read(new FormData(target));
    if (wanted !== null) void busily(`save ${id}`, () => save(own, id, edit, wanted));
  };
  const leave = () => change(own, id, { edit: null, failure: undefined }, `${edit} ${id}`);
  const { failure } = stateOf(own, id);
  return html`<form class=${edit === 'name' ? 'line' : 'inset stack'} at="edit ${id}" aria-label=${EDITS[edit]}
    onsubmit=${send} onkeydown=${({ key }) => key === 'Escape' && leave()}>
    ${failure && complaint(failure)}
    ${words && html`<p>${words}</p>`}
    ${fields}
    <div class="line">
      ${workButton({ at: `save ${id}`, label: 'Save', doing: 'Saving…', look: 'solid' })}
      <button type="button" at="leave ${id}" onclick=${leave}>Cancel</button>
    </div>
  </form>`;
}

function nameForm(own, { id, name }) {
  const fields = html`<input name="name" at="new name ${id}" value=${name} aria-label="Name" required maxlength="400"
    autocomplete="off" />`;
  return formOf(own, id, 'name', { read: (typed) => ({ name: typed.get('name') }), fields });
}

function scopesForm(own, { id, scopes }) {
  function read(typed) {
    const left = typed.getAll('scope');
    if (left.length > 0 && left.length < scopes.length) return { scopes: left };
    const failure = left.length === 0 ? 'The last scope stays. To end the key, revoke it.' : 'None is unticked yet.';
    change(own, id, { failure }, placeOf(scopes[0], id));
    return null;
  }
  const box = (scope) => html`<label class="sentence" at=${scope}>
    <input type="checkbox" name="scope" value=${scope} at=${placeOf(scope, id)} checked /><bdi>${scope}</bdi>
  </label>`;
  const fields = html`<div class="choices line" role="group" aria-label="Scopes that stay">${scopes.map(box)}</div>`;
  const words = 'Untick what it may do no more. The last scope stays, and none can be added.';
  return formOf(own, id, 'scopes', { read, words, fields });
}

function endForm(own, { id, expiresAt }) {
  const isSooner = (days) => expiresAt === null || Date.now() + days * DAY_MS < expiresAt;
  const offered = [1, ...daysOffered(null)].filter(isSooner);
  if (offered.length === 0)
    return html`<p class="hint" at="edit ${id}">It ends within a day. To end it now, revoke it.</p>`;
  const fields = html`<label class="line">It ends
    <select name="days" at="days ${id}">
      ${offered.map((days) => html`<option value=${days}>${inDays(days)}</option>`)}
    </select>
  </label>`;
  const read = (typed) => ({ expiresInDays: Number(typed.get('days')) });
  return formOf(own, id, 'end', { read, words: 'It can’t be given longer again here.', fields });
}

function historyView(own, id) {
  const { events, cursor, instead } = stateOf(own, id);
  const more = { at: `more ${id}`, label: 'Earlier', doing: 'Loading…', act: () => readHistory(own, id, cursor) };
  return html`<div class="field" at="history ${id}" tabindex="-1">
    <h3>History</h3>
    ${instead && html`<p class="hint" role="status">${instead}</p>`}
    <ul class="history hint" role="list" aria-label="History">${events.map((event) => html`<li>${sentenceOf(event)}</li>`)}</ul>
    ${cursor !== undefined && workButton(more)}
  </div>`;
}

const FIELDS = {
  name: 'Renamed',
  scopes: 'Scopes changed',
  expiresAt: 'End changed',
  rateLimit: 'Limit changed',
  quota: 'Quota changed',
  active: 'Made active again',
  resource: 'Server changed',
  metadata: 'Data changed',
};
const KINDS = {
  created: 'Made',
  rotated: 'Rotated',
  first_used: 'New secret first used',
  revoked: 'Revoked',
  deleted: 'Deleted',
  child_ended: 'A key that it had made was ended',
};

/** Returns a sentence like `Rotated by alice, 3 days ago`. */
function sentenceOf({ at, kind, actor, address, fields = [] }) {
  const who = actor === undefined ? '' : nameOf(actor);
  const where = address !== undefined && html`, from ${address}`;
  if (kind === 'connected') return html`Handed to ${who}, ${timeOf(at)}`;
  if (kind === 'delegated') return html`Made a key for a program, ${who}, ${timeOf(at)}`;
  const changed = fields.map((field) => FIELDS[field] ?? field).join(', ');
  const what = KINDS[kind] ?? (changed || 'Changed');
  return html`${what}${who !== '' && html` by ${who}`}, ${timeOf(at)}${where}`;
}
