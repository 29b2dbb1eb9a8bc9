// The fields of a new key, what they ask for, and how what was typed is kept.

import { html } from '../widgets/html.js';

const DAYS = [7, 30, 90, 365];

/**
 * `scopes`: those there are, null: any; `offered`, `more`: those to tick, then; `daysMax` null: no limit. `ticked`: those
 * that are ticked to begin with.
 */
export function keyFields({ scopes, offered, daysMax }, { name = '', ticked = [], more = [], daysUsual = 90, at }) {
  const choices = [...new Set([...ticked, ...(scopes ?? [...more, ...offered])])];
  const choice = (scope) => html`<label class="sentence" at=${scope}>
    <input type="checkbox" name="scopes" value=${scope} checked=${ticked.includes(scope)} /><bdi>${scope}</bdi>
  </label>`;
  const others = choices.length > 0 ? 'Other scopes, with spaces between' : 'Scopes, with spaces between';
  return html`<div class="field">
      <label for="name">Name</label>
      <input id="name" name="name" at=${at} value=${name} required maxlength="400" autocomplete="off"
        aria-describedby="name-hint" />
      <p id="name-hint" class="hint">What it is for, to recognize it by: “billing export”, “CI”.</p>
    </div>
    <fieldset class="field" aria-describedby="scopes-hint">
      <legend>Scopes</legend>
      <div class="choices line">${choices.map(choice)}</div>
      ${
        scopes === null &&
        html`<input name="scopes" aria-label=${others} placeholder=${others} autocomplete="off" autocapitalize="off"
          spellcheck="false" />`
      }
      <p id="scopes-hint" class="hint">What it may do. Give as few as possible.</p>
    </fieldset>
    <div class="field"><label for="days">Expires</label>${expiries(daysMax, daysUsual)}</div>
    <details><summary>Limits</summary>${limits()}</details>`;
}

function expiries(daysMax, daysUsual) {
  const offered = daysMax === null ? DAYS : [...DAYS.filter((days) => days < daysMax), daysMax];
  const words = (days) => (days === 365 ? 'in a year' : days === 1 ? 'in a day' : `in ${days} days`);
  const usual = Math.min(daysUsual, daysMax ?? daysUsual);
  return html`<select id="days" name="days">
    ${offered.map((days) => html`<option value=${days} selected=${days === usual}>${words(days)}</option>`)}
    ${daysMax === null && html`<option value="">never</option>`}
  </select>`;
}

const limits = () => html`<div class="line">
  <div class="field">
    <label for="limit">Rate limit</label>
    <div class="line">
      <input id="limit" name="limit" type="number" min="1" max="1000000000" placeholder="the server’s" />
      <select name="limit-per" aria-label="Window of the rate limit">
        <option value="1s">calls a second</option><option value="1m" selected>calls a minute</option>
        <option value="1h">calls an hour</option><option value="1d">calls a day</option>
      </select>
    </div>
  </div>
  <div class="field">
    <label for="quota">Quota</label>
    <div class="line">
      <input id="quota" name="quota" type="number" min="1" max="1000000000" placeholder="the server’s" />
      <select name="quota-per" aria-label="Period of the quota">
        <option value="day" selected>calls a day</option><option value="month">calls a month</option>
      </select>
    </div>
  </div>
</div>`;

/** The input of create_api_key. */
export function wantedIn(form) {
  const typed = new FormData(form);
  const [days, limit, quota] = ['days', 'limit', 'quota'].map((name) => typed.get(name));
  return {
    name: typed.get('name'),
    scopes: [...new Set(typed.getAll('scopes').flatMap((text) => text.split(/\s+/).filter(Boolean)))],
    ...(days !== '' && { expiresInDays: Number(days) }),
    ...(limit && { rateLimit: { requests: Number(limit), window: typed.get('limit-per') } }),
    ...(quota && { quota: { requests: Number(quota), period: typed.get('quota-per') } }),
  };
}

/** What was typed, as JSON can hold it. */
export const typedIn = (form) => [...new FormData(form)];

export function typeAgain(form, typed) {
  for (const field of form.elements) {
    const values = typed.filter(([name]) => name === field.name).map(([, value]) => value);
    if (field.type === 'checkbox') field.checked = values.includes(field.value);
    else if (values.length > 0) field.value = values.at(-1); // of scopes the last is what was typed
    if (field.type === 'number' && field.value !== '') field.closest('details').open = true;
  }
}

/** A browser can't point at what it refuses in a closed part. */
export function openParts(event) {
  const part = event.target.closest('details');
  if (part) part.open = true;
}
