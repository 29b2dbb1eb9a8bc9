// What one can do in the open row of a key: change it, read its history, and see the keys that it has made.

import { find, focusOn, hasFocus, html, redraw } from '../../pages/widgets/draw.js';
import { isEnded } from '../../pages/widgets/key-row.js';
import { busily, complaint, nameOf, timeOf, toldView, workButton } from '../../pages/widgets/parts.js';
import { keyChildren, UNREAD } from './key-children.js';

/** Shown while the history of a row that was opened is on its way. */
const LOADING = 'Loading…';

/**
 * Creates the panels of open rows. `events(id, cursor)` resolves with a part of the history, `save(id, fields, before)`
 * with the changed item; `before` is the key as it was when the edit began, `now` beside a failure what it has become
 * meanwhile, and `said` what is told. `replace(id, item, said)` replaces a shown key with that item, `count(id, number)`
 * the number of its children. `family`: see keyChildren. `edits`, by name, are what can be changed: { label, first(key),
 * view(key, form) }, where `first` is the place that gets the focus, and `form` is formOf. What is left out is an owner's
 * own: `words` are further kinds and fields of events, and `who(event)` returns who did it.
 */
export function keyPanels(options) {
  // `states`, by id of an open key: { edit, before, failure, events, cursor, instead, made }
  const panels = { words: {}, who: ({ actor }) => actor, ...options, states: new Map() };
  return {
    open({ id, children: number }) {
      panels.states.set(id, { events: [], instead: LOADING, made: {} });
      void readHistory(panels, id);
      if (number > 0) void childrenOf(panels, id).read();
    },
    /** Reloads what may have changed of an open key, or could not be loaded. */
    readAgain({ id, children: number }) {
      const { instead, made } = stateOf(panels, id);
      if (instead && instead !== LOADING) void readHistory(panels, id);
      if (number > 0 || made?.failure) void childrenOf(panels, id).read();
    },
    /** Loads the history of a key, if it is open. */
    readHistory: (id) => panels.states.has(id) && void readHistory(panels, id),
    /** Returns whether an edit or a question of the panel is open, which has the only buttons of the row. */
    isAsking(id) {
      const { edit, made } = stateOf(panels, id);
      return Boolean(edit ?? made?.ending);
    },
    close: (id) => panels.states.delete(id),
    nameView: (key) => stateOf(panels, key.id).edit === 'name' && editView(panels, key),
    editView: (key) => stateOf(panels, key.id).edit !== 'name' && editView(panels, key),
    buttons: (key) => !isEnded(key) && editsOf(panels, key).map((edit) => editButton(panels, key, edit)),
    rulesView: ({ rules }) =>
      rules > 0 &&
      html`<p class="hint">${rules === 1 ? '1 rule lets' : `${rules} rules let`} workloads act as this key</p>`,
    historyView: (key, isQuiet) => historyView(panels, key.id, isQuiet),
    childrenView(key, isQuiet) {
      const { made } = stateOf(panels, key.id);
      return (key.children > 0 || made?.children !== undefined) && childrenOf(panels, key.id).view(isQuiet);
    },
  };
}

const stateOf = ({ states }, id) => states.get(id) ?? {};

function change(panels, id, changed, ...places) {
  if (!panels.states.has(id)) return; // closed meanwhile
  panels.states.set(id, { ...stateOf(panels, id), ...changed });
  redraw();
  places.some(focusOn);
}

const childrenOf = (panels, id) =>
  keyChildren({
    id,
    family: panels.family,
    state: () => stateOf(panels, id).made ?? {},
    change: (changed, ...places) =>
      change(panels, id, { made: { ...stateOf(panels, id).made, ...changed } }, ...places),
    count: (number) => panels.count(id, number),
  });

async function readHistory(panels, id, cursor) {
  const { events } = stateOf(panels, id);
  const { output, failure } = await panels.events(id, cursor);
  if (!Array.isArray(output?.events)) return change(panels, id, { instead: complaint(failure) || UNREAD });
  if (cursor !== undefined && stateOf(panels, id).events !== events) return; // a newer beginning arrived meanwhile
  const before = cursor === undefined ? [] : events;
  change(panels, id, { events: [...before, ...output.events], cursor: output.nextCursor, instead: '' });
}

async function save(panels, id, edit, fields) {
  change(panels, id, { failure: undefined });
  const { before } = stateOf(panels, id);
  const { output, failure, now = before, said } = await panels.save(id, fields, before);
  const isLeft = stateOf(panels, id).before !== before; // for another edit, which stays
  if (output === null) return isLeft || change(panels, id, { failure, before: now });
  panels.replace(id, output, said);
  const places = hasFocus(`edit ${id}`) ? [`${edit} ${id}`, `details ${id}`] : [];
  if (!isLeft) change(panels, id, { edit: null }, ...places);
  await readHistory(panels, id);
}

const editsOf = ({ edits }, key) => Object.keys(edits).filter((edit) => edits[edit].isOffered?.(key) ?? true);

function editButton(panels, key, edit) {
  const { id, name } = key;
  const { label, first } = panels.edits[edit];
  const begin = () => {
    change(panels, id, { edit, failure: undefined, before: { ...key } }, first(key));
    find(first(key))?.select?.(); // what is typed replaces it
  };
  return html`<button at="${edit} ${id}" aria-label="${label}: ${name}" onclick=${begin}>${label}</button>`;
}

function editView(panels, key) {
  const { edit } = stateOf(panels, key.id);
  return panels.edits[edit]?.view(key, (parts) => formOf(panels, key, edit, parts));
}

/** Draws the form of an edit. `read(typed)` returns the fields to send, or a sentence that says why there are none. */
function formOf(panels, key, edit, { read, words, fields }) {
  const { id, name } = key;
  const { label, first } = panels.edits[edit];
  const send = ({ target }) => {
    const wanted = read(new FormData(target));
    if (typeof wanted === 'string') change(panels, id, { failure: wanted }, first(key));
    else void busily(`save ${id}`, () => save(panels, id, edit, wanted));
  };
  const cancel = () => change(panels, id, { edit: null }, `${edit} ${id}`);
  const { failure } = stateOf(panels, id);
  return html`<form class=${edit === 'name' ? 'line' : 'inset stack'} at="edit ${id}" name=${edit}
    aria-label="${label}: ${name}" onsubmit=${send} onkeydown=${({ key: pressed }) => pressed === 'Escape' && cancel()}>
    ${complaint(failure)}
    ${words && html`<p>${words}</p>`}
    ${fields}
    <div class="line">
      ${workButton({ at: `save ${id}`, label: 'Save', doing: 'Saving…', look: 'solid' })}
      <button at="leave ${id}" onclick=${cancel}>Cancel</button>
    </div>
  </form>`;
}

function historyView(panels, id, isQuiet) {
  const { events, cursor, instead, made } = stateOf(panels, id);
  const more = { at: `more ${id}`, label: 'Earlier', doing: 'Loading…', act: () => readHistory(panels, id, cursor) };
  return html`<div class="field" at="history ${id}" tabindex="-1">
    <h3>History</h3>
    ${toldView(instead || (events.length === 0 ? 'Nothing yet.' : ''))}
    <ul class="history hint" role="list" aria-label="History">${events.map((event) => html`<li>${sentenceOf(panels, event, made.names)}</li>`)}</ul>
    ${cursor !== undefined && !isQuiet && workButton(more)}
  </div>`;
}

/** The words of changed fields, and of kinds of events. */
const WORDS = {
  name: 'Renamed',
  scopes: 'Scopes changed',
  expiresAt: 'End changed',
  rateLimit: 'Limit changed',
  quota: 'Quota changed',
  active: 'Made active again',
  resource: 'Server changed',
  metadata: 'Data changed',
  created: 'Made',
  rotated: 'Rotated',
  first_used: 'New secret first used',
  revoked: 'Revoked',
  deleted: 'Deleted',
  child_ended: 'A key that it had made was ended',
  rule_added: 'Rule for workloads added',
  rule_removed: 'Rule for workloads removed',
};

/** Returns a sentence like `Rotated by alice, 3 days ago`. `names` are those of its children, by id. */
function sentenceOf(panels, event, names) {
  const { at, kind, how, address, fields = [], workload } = event;
  const words = { ...WORDS, ...panels.words };
  const doer = panels.who(event) ?? '';
  const who = doer && nameOf(names?.get(doer) ?? doer);
  const where = address && html`, from ${address}`;
  if (kind === 'connected') return html`Handed to ${who}, ${timeOf(at)}`;
  if (kind === 'delegated') return html`Made a key for a program, ${who}, ${timeOf(at)}`;
  const all = fields.map((field) => words[field] ?? field).join(', ');
  const changed = all.charAt(0) + all.slice(1).toLowerCase();
  // Who had a secret may have ended it alone, during a rotation.
  const what = kind === 'revoked' && how === 'possession' ? 'Secret ended' : words[kind] || changed || 'Changed';
  return html`${what}${workload && html` (${nameOf(workload.subject)})`}${who && html` by ${who}`}, ${timeOf(at)}${where}`;
}
