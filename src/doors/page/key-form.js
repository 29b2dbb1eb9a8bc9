// Draws the form of a new key, reads its fields, and restores typed values.

import { html } from '../../pages/widgets/draw.js';
import { complaint, daysOffered, inDays, SPANS, setup, workButton } from '../../pages/widgets/parts.js';
import { set } from './session.js';

/** This server's own scopes, which are never ticked in advance, and what they allow. */
export const GIVES = new Map([
  ['introspect', 'may ask about other keys'],
  ['delegate', 'may make keys that end with it'],
]);

/**
 * Draws the form of a key for `task`, which has the `failure` of the last attempt. `head` says what the person decides;
 * its element `form-title` names the form. `fields`: see keyFields. `verb` and `doing` are the words of the button,
 * `other` is beside it. `act` gets the input of create_api_key. A form without scopes is sent only after the person was
 * led to them.
 */
export function keyForm({ task, head, fields, verb, doing, other, act }) {
  const { failure, isLed } = task;
  const lead = (form) => {
    set({ task: { ...task, failure: undefined, isLed: true } });
    form.querySelector('[name="scopes"]')?.focus();
  };
  const send = ({ target }) => {
    const wanted = wantedIn(target);
    return wanted.scopes.length === 0 && !isLed ? lead(target) : act(wanted);
  };
  return html`<form class="card stack" id="create" at="form ${verb}" aria-labelledby="form-title" onsubmit=${send}>
    ${head}
    ${keyFields({ ...fields, lead, hint: isLed && html`<span class="warn">It may do nothing yet.</span> Tick what it may do, or press “${verb}” again.` })}
    ${failure && complaint(failure)}
    <div class="line">${workButton({ at: 'go on', label: verb, doing, look: 'solid' })}${other}</div>
  </form>`;
}

/**
 * Draws the fields of a key. `ticked` are scopes ticked in advance; `more` are others to tick, if any scope may be
 * given.
 */
function keyFields({ name = '', ticked = [], more = [], daysUsual = 90, lead, hint }) {
  const { scopes, offered } = setup;
  const choices = [...new Set([...ticked, ...(scopes ?? [...more, ...offered])])];
  const choice = (scope) => html`<label class="sentence" at=${scope}>
    <input type="checkbox" name="scopes" value=${scope} checked=${ticked.includes(scope)} /><bdi>${scope}</bdi>${GIVES.has(scope) && html` <small>(${GIVES.get(scope)})</small>`}
  </label>`;
  const others = choices.length > 0 ? 'Other scopes, with spaces between' : 'Scopes, with spaces between';
  return html`<div class="field">
      <label for="name">Name</label>
      <input id="name" name="name" at="name" value=${name} required maxlength="400" autocomplete="off"
        aria-describedby="name-hint" onkeydown=${holdBack(lead)} />
      <p id="name-hint" class="hint">What it is for, to recognize it by: “billing export”, “CI”.</p>
    </div>
    <fieldset class="field" aria-describedby="scopes-hint">
      <legend>Scopes</legend>
      <div class="choices line">${choices.map(choice)}</div>
      ${
        scopes === null &&
        html`<input name="scopes" at="scopes" aria-label=${others} placeholder=${others} autocomplete="off" autocapitalize="off"
          spellcheck="false" />`
      }
      <p id="scopes-hint" class="hint" role="status">${hint || 'What it may do. Give as few as possible.'}</p>
    </fieldset>
    <div class="field"><label for="days">Expires</label>${expiries(daysUsual)}</div>
    <details><summary>Limits</summary><div class="line">
      ${limit('limit', 'Rate limit', 'Window', ['s', 'm', 'h', 'd'])}${limit('quota', 'Quota', 'Period', ['day', 'month'])}
    </div></details>`;
}

/** Leads to the scopes if Enter in the name would create a key without any. */
const holdBack = (lead) => (event) => {
  const { form } = event.target;
  if (event.key !== 'Enter' || wantedIn(form).scopes.length > 0) return;
  event.preventDefault();
  lead(form);
};

function expiries(daysUsual) {
  const { daysMax } = setup; // null: no limit
  const usual = Math.min(daysUsual, daysMax ?? daysUsual);
  return html`<select id="days" name="days">
    ${daysOffered(daysMax).map((days) => html`<option value=${days} selected=${days === usual}>${inDays(days)}</option>`)}
    ${daysMax === null && html`<option value="">never</option>`}
  </select>`;
}

const limit = (id, label, span, units) => html`<div class="field">
  <label for=${id}>${label}</label>
  <div class="line">
    <input id=${id} name=${id} type="number" min="1" max="1000000000" placeholder="the server’s" />
    <select name="${id}-per" aria-label="${span} of the ${label.toLowerCase()}">
      ${units.map((unit) => html`<option value=${unit} selected=${unit === 'm'}>calls ${SPANS[unit]}</option>`)}
    </select>
  </div>
</div>`;

function wantedIn(form) {
  const typed = new FormData(form);
  const [days, limit, quota] = ['days', 'limit', 'quota'].map((name) => typed.get(name));
  return {
    name: typed.get('name'),
    scopes: [...new Set(typed.getAll('scopes').flatMap((text) => text.split(/\s+/).filter(Boolean)))],
    ...(days !== '' && { expiresInDays: Number(days) }),
    ...(limit && { rateLimit: { requests: Number(limit), window: `1${typed.get('limit-per')}` } }),
    ...(quota && { quota: { requests: Number(quota), period: typed.get('quota-per') } }),
  };
}

/** Returns the typed values, in a form that JSON can store. */
export const typedIn = (form) => [...new FormData(form)];

export function typeAgain(form, typed) {
  for (const field of form.elements) {
    const values = typed.filter(([name]) => name === field.name).map(([, value]) => value);
    if (field.type === 'checkbox') field.checked = values.includes(field.value);
    else if (values.length > 0) field.value = values.at(-1); // the last of the scopes is the text field
    if (field.type === 'number' && field.value !== '') field.closest('details').open = true;
  }
}

/** Opens the part of a form with an invalid field, because browsers can't point at one in a closed part. */
export function openParts(event) {
  const part = event.target.closest('details');
  if (part) part.open = true;
}
