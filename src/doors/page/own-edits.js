// What owners may change of a key beside what the tools do: rename it, remove scopes, end it earlier.

import { html } from '../../pages/widgets/draw.js';
import { daysOffered, inDays } from '../../pages/widgets/parts.js';

const DAY_MS = 86_400_000;

/** Returns the place of a scope's checkbox. */
const placeOf = (scope, id) => `scope ${scope} of ${id}`;

/** The edits of an owner (key-panel.js). */
export const OWN_EDITS = {
  name: { label: 'Rename', first: ({ id }) => `new name ${id}`, view: nameForm },
  scopes: {
    label: 'Fewer scopes',
    isOffered: ({ scopes }) => scopes.length > 0,
    first: ({ id, scopes: [first] }) => placeOf(first, id),
    view: scopesForm,
  },
  end: {
    label: 'End sooner',
    isOffered: (key) => daysSooner(key).length > 0,
    first: ({ id }) => `days ${id}`,
    view: endForm,
  },
};

function nameForm({ id, name }, form) {
  const fields = html`<input name="name" at="new name ${id}" value=${name} aria-label="Name" required maxlength="400"
    autocomplete="off" />`;
  return form({ read: (typed) => ({ name: typed.get('name') }), fields });
}

function scopesForm({ id, scopes }, form) {
  function read(typed) {
    const left = typed.getAll('scope');
    if (left.length === 0) return 'The last scope stays. To end the key, revoke it.';
    return left.length < scopes.length ? { scopes: left } : 'None is unticked yet.';
  }
  const box = (scope) => html`<label class="sentence" at=${scope}>
    <input type="checkbox" name="scope" value=${scope} at=${placeOf(scope, id)} checked /><bdi>${scope}</bdi>
  </label>`;
  const fields = html`<div class="choices line" role="group" aria-label="Scopes that stay">${scopes.map(box)}</div>`;
  const words = 'Untick what it may do no more. The last scope stays, and none can be added.';
  return form({ read, words, fields });
}

/** Returns the lives, in days from now, with which a key ends sooner: the longest first, as it ends the least. */
function daysSooner({ expiresAt }) {
  const isSooner = (days) => expiresAt === null || Date.now() + days * DAY_MS < expiresAt;
  return [1, ...daysOffered(null)].filter(isSooner).reverse();
}

function endForm(key, form) {
  const fields = html`<label class="line">It ends
    <select name="days" at="days ${key.id}">
      ${daysSooner(key).map((days) => html`<option value=${days}>${inDays(days)}</option>`)}
    </select>
  </label>`;
  const read = (typed) => ({ expiresInDays: Number(typed.get('days')) });
  return form({ read, words: 'The end can’t be moved later again here.', fields });
}
