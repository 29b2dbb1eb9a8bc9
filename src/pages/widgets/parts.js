// Draws the parts that pages and widgets share: icons, sentences, buttons, names, scopes and times.

import { find, html, redraw } from './draw.js';

/** The setup from the server. `url`, the server's, is null in a widget. */
export const setup = JSON.parse(document.getElementById('setup').textContent);

/** The tag of a component's heading. A widget is its own document, so it begins with an h1. */
export const HEADING = setup.url === null ? 'h1' : 'h2';

// The outcome of a call: { output, failure, problem }. `output` is the object that a tool returned, or null. `failure`
// is a sentence: why there is no output, or what to say if it can't be read. `problem` has the code of a refusal.
export const UNREADABLE = 'The answer could not be read.';
export const succeeded = (output) => ({ output, failure: UNREADABLE, problem: {} });
export const failed = (failure, problem = {}) => ({ output: null, failure, problem });

const CIRCLE = 'M1.8 8a6.2 6.2 0 1 0 12.4 0 6.2 6.2 0 1 0-12.4 0';
const ICONS = {
  key: 'M2 11a3 3 0 1 0 6 0 3 3 0 1 0-6 0m5.2-2.2 6-6M11 5l2 2',
  warn: 'M8 2 1.5 13.5h13zM8 6.5v3.2M8 11.7v.1',
  copy: 'M5.5 5.5h8v8h-8zM10.5 2.5h-8v8',
  done: 'm3 8.5 3.5 3.5L13 4.5',
  rotate: 'M13.5 8A5.5 5.5 0 1 1 11 3.4M11.5.8v3H8.6',
  active: `${CIRCLE}m3.6.2 1.9 1.9 3.4-3.9`,
  soon: `${CIRCLE}M8 4.6V8l2.3 1.6`,
  expired: 'M4 2h8M4 14h8M5 2c0 3.5 6 4 6 6.2S5 11 5 14M11 2c0 3.5-6 4-6 6.2S11 11 11 14',
  revoked: `${CIRCLE}m1.9-4.3 8.6 8.6`,
};

export const icon = (name) => html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** Draws a sentence about a failure, which screen readers announce at once; nothing without words. */
export const complaint = (words) =>
  words && html`<p class="sentence bad" role="alert">${icon('warn')}<span>${words}</span></p>`;

/** Draws words, or a complaint. The words' element is there before them: screen readers read what changes in it. */
export function toldView(told, look = '') {
  const [words, failure] = typeof told === 'string' ? [told, null] : ['', told];
  return html`<p class=${words === '' ? 'sr' : `hint ${look}`} role="status">${words}</p>${failure}`;
}

const working = new Set(); // the `at` of buttons

export const isWorking = (at) => working.has(at);

/** Runs `work`, once at a time, while the button at `at` shows it. */
export async function busily(at, work) {
  if (working.has(at)) return;
  working.add(at);
  try {
    const done = work();
    redraw();
    await done;
  } finally {
    working.delete(at);
    redraw();
  }
}

/** Draws a button that says what it does, or is doing, and keeps the focus. Without `act` it submits its form. */
export function workButton({ at, label, doing, look, act }) {
  const isBusy = isWorking(at);
  return html`<button type=${!act && 'submit'} class=${look} at=${at} aria-disabled=${isBusy && 'true'}
    onclick=${act && (() => busily(at, act))}>
    ${isBusy ? doing : label}
  </button>`;
}

/** Copies `text`. Resolves with whether that was allowed. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Selects what is in the element at `at`, if it is shown, to be copied by a gesture. */
export function select(at) {
  const shown = find(at);
  if (shown) getSelection().selectAllChildren(shown);
}

/** Says how to copy what is selected. */
export const copyGesture = () =>
  matchMedia('(pointer: coarse)').matches
    ? 'touch and hold it'
    : `press ${/Mac/.test(navigator.platform) ? '⌘C' : 'Ctrl+C'}`;

/** Draws a button of a group in which one is pressed. */
export const pill = (at, words, isPressed, act) =>
  html`<button at=${at} aria-pressed=${String(isPressed)} onclick=${act}>${words}</button>`;

// Invisible characters, except joiners, direction marks, variation selectors and flag tags, which have honest uses.
const UNSEEN = /(?!\p{Variation_Selector}|[\u200c-\u200f\u{e0020}-\u{e007f}])\p{Default_Ignorable_Code_Point}/u;
const BLANK = /^[\p{Default_Ignorable_Code_Point}\s\u2800\ufffc]*$/u;

/** Draws a name that anyone may have chosen: isolated from the text around it, with a warning if it hides something. */
export function nameOf(name) {
  const odd = BLANK.test(name) ? 'blank name' : UNSEEN.test(name) ? 'has hidden characters' : '';
  return html`<b title=${name}><bdi>${String(name)}</bdi>${odd && html` <small class="warn">(${odd})</small>`}</b>`;
}

/**
 * Isolates a text that anyone may have chosen, as nameOf does, where it is part of a sentence without elements. Its own
 * isolates are left out: they could end this one.
 */
export const isolated = (text) => `\u2068${text.replaceAll(/[\u2066-\u2069]/g, '')}\u2069`;

/** Draws scopes. At most `max` are visible at once; the others unfold. */
export function scopeList(scopes, max) {
  const item = (scope) => html`<li><bdi title=${scope}>${scope}</bdi></li>`;
  const seen = scopes.slice(0, scopes.length > max ? max - 1 : max);
  const rest = scopes.slice(seen.length);
  const more = html`<li class="muted"><details>
    <summary>${rest.length} more</summary><ul class="scopes line">${rest.map(item)}</ul>
  </details></li>`;
  return html`<ul class="scopes line" aria-label="Scopes">
    ${seen.map(item)}${rest.length > 0 && more}${scopes.length === 0 && html`<li class="muted">no scopes</li>`}
  </ul>`;
}

// Each unit, its length, and the least distance at which it is used: "in 30 days" says more than "in 1 month".
const UNITS = [
  ['year', 31_557_600_000, 700 * 86_400_000],
  ['month', 2_629_800_000, 59.5 * 86_400_000],
  ['day', 86_400_000, 23.5 * 3_600_000],
  ['hour', 3_600_000, 59.5 * 60_000],
  ['minute', 60_000, 45_000],
];
const relative = new Intl.RelativeTimeFormat('en');

/** Returns words like `3 days ago` or `in 5 months`. */
export function relativeWords(ms) {
  const found = UNITS.find(([, , fromMs]) => Math.abs(ms) >= fromMs);
  if (found === undefined) return ms > 0 ? 'in seconds' : 'just now';
  const [unit, unitMs] = found;
  return relative.format(Math.round(ms / unitMs), unit);
}

/** Returns whether the value is a number of milliseconds that `Date` can hold. */
export const isTime = (value) => typeof value === 'number' && Math.abs(value) <= 8.64e15;

const STYLES = {
  exact: { dateStyle: 'full', timeStyle: 'long' },
  short: { dateStyle: 'medium', timeStyle: 'short' },
  day: { dateStyle: 'long' },
  hour: { dateStyle: 'long', timeStyle: 'short' },
  time: { timeStyle: 'medium' },
};
/** The formats of times, as the host writes them. The words are English, so other locales are ignored. */
export const formats = {};

export function formatTimes({ locale, timeZone }) {
  for (const [name, style] of Object.entries(STYLES)) {
    try {
      formats[name] = new Intl.DateTimeFormat(/^en\b/.test(locale) ? locale : 'en-GB', { ...style, timeZone });
    } catch {
      formats[name] = new Intl.DateTimeFormat('en-GB', style);
    }
  }
}
formatTimes({ locale: navigator.language });

/** Draws a time in relative words, with the exact time on hover. */
export const timeOf = (atMs) =>
  html`<time datetime=${new Date(atMs).toISOString()} title=${formats.exact.format(atMs)}>${relativeWords(atMs - Date.now())}</time>`;

/** Returns the lives, in days, to offer for a key. `daysMax` is the longest allowed; null: any. */
export const daysOffered = (daysMax) => (daysMax === null ? DAYS : [...DAYS.filter((days) => days < daysMax), daysMax]);
const DAYS = [7, 30, 90, 365];

export const inDays = (days) => (days === 365 ? 'in a year' : days === 1 ? 'in a day' : `in ${days} days`);

export const inWords = (count) => count.toLocaleString('en');

/** Returns words like `1 key` or `2,000 keys`. */
export const countWords = (count, noun = 'key') => `${inWords(count)} ${noun}${count === 1 ? '' : 's'}`;
