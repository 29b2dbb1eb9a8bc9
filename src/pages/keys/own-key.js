// What an owner does with a key beside what tools do: a new name, fewer scopes, an earlier end, and a look at its history.

import { focusOn, html, redraw } from '../widgets/draw.js';
import { busily, complaint, daysOffered, inDays, nameOf, timeOf, workButton } from '../widgets/parts.js';

const DAY_MS = 86_400_000;
const EDITS = { name: 'Rename', scopes: 'Fewer scopes', end: 'End sooner' };
const IS_IN_USE = ['active', 'soon'];

/** `request(path, body)`: of the server. `replace(id, item)`: puts the key, as it is listed then, in place of what is shown. */
export function ownKeys({ request, replace }) {
  const states = new Map(); // by id of an open key: { edit, failure, events, cursor, instead }
  const stateOf = (id) => states.get(id) ?? {};

  function change(id, changed, ...places) {
    if (!states.has(id)) return; // closed meanwhile
    states.set(id, { ...stateOf(id), ...changed });
    redraw();
    places.some(focusOn);
  }

  async function readHistory(id, cursor) {
    const { output, failure } = await request('/keys/events', { keyId: id, cursor });
    if (!Array.isArray(output?.events)) return change(id, { instead: failure });
    const before = cursor === undefined ? [] : stateOf(id).events;
    change(id, { events: [...before, ...output.events], cursor: output.nextCursor, instead: '' });
  }

  async function save(id, edit, fields) {
    const { output, failure } = await request('/keys/update', { keyId: id, ...fields });
    if (output === null) return change(id, { failure });
    replace(id, output);
    change(id, { edit: null, failure: undefined }, `${edit} ${id}`, `details ${id}`);
    await readHistory(id);
  }

  /** `read(form)`: what is asked for; null: nothing, so that nothing is sent. */
  function form(id, edit, { read, words, fields }) {
    const send = ({ target }) => {
      const wanted = read(new FormData(target));
      if (wanted !== null) void busily(`save ${id}`, () => save(id, edit, wanted));
    };
    const leave = () => change(id, { edit: null, failure: undefined }, `${edit} ${id}`);
    const { failure } = stateOf(id);
    return html`<form class=${edit === 'name' ? 'line' : 'inset stack'} at="edit ${id}" aria-label=${EDITS[edit]} onsubmit=${send}
      onkeydown=${({ key }) => key === 'Escape' && leave()}>
      ${failure && complaint(failure)}
      ${words && html`<p>${words}</p>`}
      ${fields}
      <div class="line">
        ${workButton({ at: `save ${id}`, label: 'Save', doing: 'Saving…', look: 'solid' })}
        <button type="button" at="leave ${id}" onclick=${leave}>Cancel</button>
      </div>
    </form>`;
  }

  function scopesForm({ id, scopes }) {
    const read = (typed) => {
      const left = typed.getAll('scope');
      if (left.length === scopes.length) return null;
      if (left.length > 0) return { scopes: left };
      change(id, { failure: 'The last scope stays. To end the key, revoke it.' });
      return null;
    };
    const box = (scope) => html`<label class="sentence" at=${scope}>
      <input type="checkbox" name="scope" value=${scope} checked /><bdi>${scope}</bdi>
    </label>`;
    const fields = html`<div class="choices line" role="group" aria-label="Scopes that stay">${scopes.map(box)}</div>`;
    return form(id, 'scopes', {
      read,
      words: 'Untick what it may do no more. The last scope stays, and none can be added.',
      fields,
    });
  }

  function endForm({ id, expiresAt }) {
    const days = [1, ...daysOffered(null)].filter(
      (count) => expiresAt === null || Date.now() + count * DAY_MS < expiresAt,
    );
    if (days.length === 0)
      return html`<p class="hint" at="edit ${id}">It ends within a day. To end it now, revoke it.</p>`;
    const fields = html`<label class="line">It ends
      <select name="days" at="days ${id}">${days.map((count) => html`<option value=${count}>${inDays(count)}</option>`)}</select>
    </label>`;
    return form(id, 'end', {
      read: (typed) => ({ expiresInDays: Number(typed.get('days')) }),
      words: 'It can’t be given longer again here.',
      fields,
    });
  }

  function nameForm({ id, name }) {
    const fields = html`<input name="name" at="new name ${id}" value=${name} aria-label="Name" required maxlength="400" autocomplete="off" />`;
    return form(id, 'name', { read: (typed) => ({ name: typed.get('name') }), fields });
  }

  const firstIn = { name: (id) => `new name ${id}`, scopes: (id) => `save ${id}`, end: (id) => `days ${id}` };

  return {
    open(id) {
      states.set(id, { edit: null, events: [], cursor: undefined, instead: 'Loading…' });
      void readHistory(id);
    },
    close: (id) => states.delete(id),
    nameView: (key) => stateOf(key.id).edit === 'name' && nameForm(key),
    editView(key) {
      const { edit } = stateOf(key.id);
      return edit === 'scopes' ? scopesForm(key) : edit === 'end' && endForm(key);
    },
    buttons: ({ id, name, state }) =>
      IS_IN_USE.includes(state) &&
      Object.entries(EDITS).map(
        ([edit, words]) => html`<button type="button" at="${edit} ${id}" aria-label="${words}: ${name}"
          onclick=${() => change(id, { edit, failure: undefined }, firstIn[edit](id))}>${words}</button>`,
      ),
    historyView({ id }) {
      const { events, cursor, instead } = stateOf(id);
      const more = { at: `more ${id}`, label: 'Earlier', doing: 'Loading…', act: () => readHistory(id, cursor) };
      return html`<div class="field" at="history ${id}">
        <h3>History</h3>
        ${instead && html`<p class="hint" role="status">${instead}</p>`}
        <ul class="history hint" role="list" aria-label="History">${events.map((event) => html`<li>${sentenceOf(event)}</li>`)}</ul>
        ${cursor !== undefined && workButton(more)}
      </div>`;
    },
  };
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

/** `Rotated by alice, 3 days ago`. */
function sentenceOf({ at, kind, actor, address, fields = [] }) {
  const who = actor === undefined ? '' : nameOf(actor);
  const where = address !== undefined && html`, from ${address}`;
  if (kind === 'connected') return html`Handed to ${who}, ${timeOf(at)}`;
  if (kind === 'delegated') return html`Made a key for a program, ${who}, ${timeOf(at)}`;
  const changed = fields.map((field) => FIELDS[field] ?? field).join(', ');
  const what = KINDS[kind] ?? (changed || 'Changed');
  return html`${what}${who !== '' && html` by ${who}`}, ${timeOf(at)}${where}`;
}
