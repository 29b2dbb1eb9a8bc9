// Draws the form of a new key, reads its fields, and restores typed values.

import { html } from '../../pages/widgets/draw.js';
import { spanWords } from '../../pages/widgets/key-row.js';
import { complaint, daysOffered, inDays, setup, workButton } from '../../pages/widgets/parts.js';
import { page, set } from './session.js';

/** This server's own scopes, which are never ticked in advance, and what they allow. */
export const GIVES = new Map([
  ['introspect', 'may ask about other keys'],
  ['delegate', 'may make keys that end with it'],
]);

/**
 * Draws the form of a key for `task`, which has the `failure` of the last attempt. Each connection has a form of its own.
 * `head` says what the person decides; its element `form-title` names the form. `fields`: see keyFields. `verb` and
 * `doing` are the words of the button, `other` is beside it. `act` gets the input of create_api_key. A form without scopes
 * is sent only after the person was led to them.
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
  return html`<form class="card stack" id="decided" at="form ${verb} ${task.connect}" aria-labelledby="form-title"
    onsubmit=${send}>
    ${head}
    ${keyFields({ ...fields, lead, hint: isLed && html`<span class="warn">It may do nothing yet.</span> Say what it may do, or press “${verb}” again.` })}
    ${complaint(failure)}
    <div class="line">${workButton({ at: 'go on', label: verb, doing, look: 'solid' })}${other}</div>
  </form>`;
}

/**
 * Draws the fields of a key. `at` is the end of their ids. `ticked` are scopes ticked in advance; `more` are others to
 * tick, if any scope may be given. `daysUsual` is the life chosen in advance; null: as before. `limit` and `quota` are
 * the key's own, so far.
 */
export function keyFields({ at = '', name = '', ticked = [], more = [], daysUsual = 90, limit, quota, lead, hint }) {
  const { scopes, offered } = setup;
  const choices = [...new Set([...ticked, ...(scopes ?? [...more, ...offered])])];
  const choice = (scope) => html`<label class="sentence" at=${scope}>
    <input type="checkbox" name="scopes" value=${scope} checked=${ticked.includes(scope)} /><bdi>${scope}</bdi>${GIVES.has(scope) && html` <small>(${GIVES.get(scope)})</small>`}
  </label>`;
  const others = `${choices.length > 0 ? 'Other scopes' : 'Scopes'}, with spaces between`;
  return html`<div class="field">
      <label for="name${at}">Name</label>
      <input id="name${at}" name="name" at="name${at}" value=${name} required maxlength="400" autocomplete="off"
        aria-describedby="name-hint${at}" onkeydown=${lead && holdBack(lead)} />
      <p id="name-hint${at}" class="hint">What it is for, to recognize it by: “billing export”, “CI”.</p>
    </div>
    <fieldset class="field" aria-describedby="scopes-hint${at}">
      <legend>Scopes</legend>
      <div class="choices line">${choices.map(choice)}</div>
      ${
        scopes === null &&
        html`<input name="scopes" at="scopes" aria-label=${others} placeholder=${others} autocomplete="off" autocapitalize="off" />`
      }
      <p id="scopes-hint${at}" class="hint" role="status">${hint || 'What it may do. Give as few as possible.'}</p>
    </fieldset>
    <div class="field"><label for="days${at}">Expires</label>${expiries(at, daysUsual)}</div>
    <details open=${Boolean(limit || quota)}><summary>Limits</summary><div class="line">${limitFields({ at, limit, quota })}</div></details>`;
}

/** Draws the fields of a limit and a quota. Windows begin with the shortest of `units`. */
export const limitFields = ({ at, limit, quota, units = ['s', 'm', 'h', 'd'] }) => [
  limitField(
    'limit',
    at,
    ['Rate limit', 'Window'],
    [limit?.requests, limit?.window],
    units.map((unit) => `1${unit}`),
  ),
  limitField('quota', at, ['Quota', 'Period'], [quota?.requests, quota?.period], ['day', 'month']),
];

/** Leads to the scopes if Enter in the name would create a key without any. */
const holdBack = (lead) => (event) => {
  const { form } = event.target;
  if (event.key !== 'Enter' || wantedIn(form).scopes.length > 0) return;
  event.preventDefault();
  lead(form);
};

function expiries(at, daysUsual) {
  const { daysMax } = setup; // null: no limit
  const usual = daysUsual === null ? null : Math.min(daysUsual, daysMax ?? daysUsual);
  return html`<select id="days${at}" name="days">
    ${usual === null && html`<option value="">as before</option>`}
    ${daysOffered(daysMax).map((days) => html`<option value=${days} selected=${days === usual}>${inDays(days)}</option>`)}
    ${daysMax === null && html`<option value=${usual === null ? 'never' : ''}>never</option>`}
  </select>`;
}

function limitField(name, at, [label, span], [requests, chosen = '1m'], spans) {
  const offered = requests === undefined || spans.includes(chosen) ? spans : [chosen, ...spans];
  return html`<div class="field">
    <label for="${name}${at}">${label}</label>
    <div class="line">
      <input id="${name}${at}" name=${name} at="${name}${at}" type="number" min="1" max="1000000000" value=${requests ?? false}
        placeholder="the server’s" />
      <select name="${name}-per" aria-label="${span} of the ${label.toLowerCase()}">
        ${offered.map((per) => html`<option value=${per} selected=${per === chosen}>calls ${spanWords(per)}</option>`)}
      </select>
    </div>
  </div>`;
}

/** Returns the limit and quota that were typed; undefined: none. */
export function limitsIn(typed) {
  const amountIn = (name, span) => {
    const requests = Number(typed.get(name));
    return requests > 0 ? { requests, [span]: typed.get(`${name}-per`) } : undefined;
  };
  return { rateLimit: amountIn('limit', 'window'), quota: amountIn('quota', 'period') };
}

/** Returns the key that was typed, as the tools take it. What the person has left out is undefined. */
export function keyIn(typed) {
  const days = typed.get('days');
  return {
    name: typed.get('name'),
    scopes: [...new Set(typed.getAll('scopes').flatMap((text) => text.split(/\s+/).filter(Boolean)))],
    expiresInDays: days === 'never' ? null : Number(days) || undefined,
    ...limitsIn(typed),
  };
}

const wantedIn = (form) => keyIn(new FormData(form));

/** Returns the fields of a form that the person has changed, as JSON can store them. */
export const typedIn = (form) =>
  [...form.elements].filter(isChanged).map(({ type, name, value, checked }) => ({ type, name, value, checked }));

const isChanged = ({ name, options, checked, defaultChecked, value, defaultValue }) =>
  name !== '' &&
  (options
    ? options.selectedIndex !==
      Math.max(
        0,
        [...options].findIndex(({ defaultSelected }) => defaultSelected),
      )
    : checked !== defaultChecked || value !== defaultValue);

/** Changes the fields of a form as the person had changed them. What else the form has meanwhile stays. */
export function typeAgain(form, typed) {
  for (const { type, name, value, checked } of typed) {
    const isBox = type === 'checkbox';
    const isIt = (field) => field.type === type && field.name === name && (!isBox || field.value === value);
    const field = [...form.elements].find(isIt);
    if (field === undefined) continue; // it is not offered any more
    if (isBox) field.checked = checked;
    else field.value = value;
    if (type === 'number') openParts({ target: field });
  }
}

/** Takes keys out of a field that isn't for keys: names and data are sent, and shown to others. Says so until the next act. */
export function dropKey({ target }) {
  const text = String(target.value);
  const left = text.replace(/\w{2,12}_(?:live|test)_[0-9a-f]{64}/g, ''); // also before other text, as a pasted one may be
  if (left !== text && !target.matches('#token, .tools input')) {
    target.value = left;
    set({ notice: TAKEN_OUT });
  } else if (page.notice === TAKEN_OUT) set({ notice: '' });
}
const TAKEN_OUT = complaint('That was a whole key. It was taken out of the field, and sent nowhere.');

/** Selects a field's text at a double click beside it, where browsers select nothing, so that what is typed replaces it. */
export const selectBeside = ({ target }) =>
  target.matches('input') && target.selectionStart === target.selectionEnd && target.select();

/** Opens the part of a form with a field. Browsers can't point at an invalid one in a closed part. */
export const openParts = ({ target }) => target.closest('details')?.setAttribute('open', '');
