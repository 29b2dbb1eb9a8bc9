// How both widgets read what they get, and put it on the page: always as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** The name of what a result has for the widget alone. */
export const FOR_WIDGET = 'mcp-key-server/widget';

/**
 * The object a tool returned, or null: structuredContent, else the JSON of its first text; with what is for the
 * widget alone, which no model is shown.
 */
export function outputOf({ structuredContent, content, isError, _meta: meta }) {
  if (isError === true) return null;
  const forWidget = meta?.[FOR_WIDGET];
  if (typeof structuredContent === 'object' && structuredContent !== null)
    return { ...structuredContent, ...forWidget };
  try {
    const parsed = JSON.parse(content[0].text);
    return typeof parsed === 'object' ? { ...parsed, ...forWidget } : null;
  } catch {
    return null;
  }
}

/** The code of a failure and what belongs to it, if the server has it for the widget. */
export const problemOf = ({ isError, _meta: meta }) => (isError === true && meta?.[FOR_WIDGET]) || {};

/** Why a tool failed, in its own words if it has any; what would help stands in a text of its own. */
export function failureOf({ content, isError }) {
  const texts = (Array.isArray(content) ? content : [])
    .filter((block) => block?.type === 'text' && typeof block.text === 'string' && block.text !== '')
    .map(({ text }) => text);
  return isError === true && texts.length > 0 ? texts.join('. ') : 'The answer could not be read.';
}

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.setAttribute('aria-hidden', 'true');
  svg.append(use);
  return svg;
}

export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

/** Shows a sentence (text, or an element made of it) in place of everything else, which the caller hides. */
export function showMessage(sentence, bad) {
  byId('message').className = bad ? 'sentence bad' : 'sentence';
  byId('message').replaceChildren(...(bad ? [icon('warn')] : []), sentence);
  byId('message').hidden = false;
}

// Characters that don't show, except joiners, direction marks, variation selectors and flag tags: those have honest
// uses.
const UNSEEN = /(?!\p{Variation_Selector}|[\u200c-\u200f\u{e0020}-\u{e007f}])\p{Default_Ignorable_Code_Point}/u;
const BLANK = /^[\p{Default_Ignorable_Code_Point}\s\u2800]*$/u;

/** Shows a name that anyone may have chosen: isolated from the text around it, with a word where it hides something. */
export function showName(target, name) {
  const text = document.createElement('bdi');
  text.textContent = name;
  target.replaceChildren(text);
  target.title = name;
  const odd = BLANK.test(name) ? 'blank name' : UNSEEN.test(name) ? 'has hidden characters' : '';
  if (odd) target.append(' ', element('span', 'odd', `(${odd})`));
}

/** Shows scopes as a list of at most `max` items: if there are more, the last is a button that shows them. */
export function showScopes(list, scopes, max) {
  const items = scopes.map((scope) => {
    const text = document.createElement('bdi');
    text.textContent = scope;
    text.title = scope;
    return element('li', '', text);
  });
  if (items.length === 0) items.push(element('li', 'rest', 'none'));
  if (items.length <= max) return list.replaceChildren(...items);
  const more = element('button', 'more', `${items.length - max + 1} more`);
  more.type = 'button';
  more.onclick = () => {
    list.replaceChildren(...items);
    items[max - 1].tabIndex = -1;
    items[max - 1].focus();
  };
  list.replaceChildren(...items.slice(0, max - 1), element('li', 'rest', more));
}

// Unit, its length, and the distance from which it is used: "in 30 days" says more than "in 1 month".
const UNITS = [
  ['year', 31_557_600_000, 700 * 86_400_000],
  ['month', 2_629_800_000, 59.5 * 86_400_000],
  ['day', 86_400_000, 23.5 * 3_600_000],
  ['hour', 3_600_000, 59.5 * 60_000],
  ['minute', 60_000, 45_000],
];
const relative = new Intl.RelativeTimeFormat('en');

/** `3 days ago`, `in 5 months`. */
function relativeWords(atMs, nowMs) {
  const ms = atMs - nowMs;
  const found = UNITS.find(([, , fromMs]) => Math.abs(ms) >= fromMs);
  if (found === undefined) return ms > 0 ? 'in seconds' : 'just now';
  const [unit, unitMs] = found;
  return relative.format(Math.round(ms / unitMs), unit);
}

/** Formats times the host's way. The words are English, so only English locales are followed. */
export function dateFormat({ locale, timeZone }, options) {
  try {
    return new Intl.DateTimeFormat(/^en\b/.test(locale) ? locale : 'en-GB', { ...options, timeZone });
  } catch {
    return new Intl.DateTimeFormat('en-GB', options);
  }
}

/** A time in relative words, with the exact one, as `format` writes it, on hover. */
export function timeElement(atMs, nowMs, format) {
  const time = element('time', '', relativeWords(atMs, nowMs));
  time.dateTime = new Date(atMs).toISOString();
  time.title = format.format(atMs);
  return time;
}

/** True for a number of milliseconds that `Date` can hold. */
export const isTime = (value) => typeof value === 'number' && Math.abs(value) <= 8.64e15;
