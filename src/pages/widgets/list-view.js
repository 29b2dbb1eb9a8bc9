// Draws a list of keys: heading, search, filter by state, rows, and the number of keys.

import { change, h, html } from './draw.js';
import { STATES } from './key-row.js';
import { ownerLine } from './owner-line.js';
import { countWords, HEADING, icon, inWords, isolated, pill, setup, toldView, workButton } from './parts.js';

const { compare } = new Intl.Collator('en', { numeric: true });
const ranks = Object.keys(STATES);
const NEVER_MS = 9e15; // after every time
export const ORDERS = {
  created: (a, b) => (b.createdAt ?? -NEVER_MS) - (a.createdAt ?? -NEVER_MS),
  name: (a, b) => compare(a.name, b.name),
  state: (a, b) => ranks.indexOf(a.state) - ranks.indexOf(b.state),
  expires: (a, b) => (a.expiresAt ?? NEVER_MS) - (b.expiresAt ?? NEVER_MS),
  'last used': (a, b) => (b.lastUsedAt ?? -NEVER_MS) - (a.lastUsedAt ?? -NEVER_MS),
};

const PASTED_MIN = 20;
const TOOLS_FROM = 8; // fewer keys can be seen at a glance
const isPage = setup.url !== null;

/**
 * Draws a list of keys. `shown` are the visible ones, in order. The others are functions: `rowOf(list, key)`,
 * `showMore(list)`, `search(list, field, isPasted)`.
 */
export function listView(list, { shown, rowOf, showMore, search }) {
  const { title, hints, keys, instead, status } = list;
  if (instead !== '') return html`<div class="empty">${instead}</div>`;
  const isEmpty = keys.length === 0 && list.cursor === null;
  const head = h(HEADING, { at: 'title', tabindex: -1 }, isEmpty ? (list.none ?? 'No API keys yet') : title);
  if (isEmpty) {
    return html`<section class="empty" at="list" tabindex="-1">${icon('key')}${head}${hints}${toldView(status)}</section>`;
  }
  const scrolls = !isPage && { role: 'region', 'aria-label': 'Keys', tabindex: 0 }; // within its own height
  const rows = html`<ul role="list" aria-label="Keys">${shown.map((key) => rowOf(list, key))}</ul>`;
  return html`<section class="keys" at="list" tabindex="-1">
    <header class="field">
      <div class="line">${head}${toldView(status, 'end')}</div>
      ${list.plan && ownerLine(list.plan)}
      ${(isPage || keys.length >= TOOLS_FROM || list.search !== '') && toolsOf(list, search)}
      ${statesOf(list)}
    </header>
    ${h('div', { class: 'scroll', ...scrolls }, rows, shown.length === 0 && html`<p class="empty hint">No key matches.</p>`)}
    ${footerOf(list, shown.length, showMore)}
  </section>`;
}

function toolsOf(list, search) {
  const { keys, said } = list;
  const hint = list.hashOf || list.seek ? 'Search, or paste a key' : 'Search';
  // A phone's keyboard, or a text dragged here, pastes under another name: nobody types so much at once.
  const type = ({ target, inputType }) =>
    void search(
      list,
      target,
      inputType === 'insertFromPaste' || target.value.length >= list.search.length + PASTED_MIN,
    );
  return html`<div class="line tools">
    <input type="search" at="search" value=${list.search} placeholder=${hint} aria-label="Search names, scopes and ids"
      autocomplete="off" oninput=${type} />
    ${
      keys.length >= TOOLS_FROM &&
      html`<select at="order" aria-label="Sort by" onchange=${({ target }) => change(list, { order: target.value })}>
        ${Object.keys(ORDERS).map((name) => html`<option value=${name} selected=${name === list.order}>Sort: ${name}</option>`)}
      </select>`
    }
  </div>
  ${toldView(said.id === undefined ? said : foundWords(list))}`;
}

/** Returns words about the key that was searched for, as it is now. */
function foundWords({ keys, said: { id, more } }) {
  const { name, state } = keys.find((key) => key.id === id) ?? {};
  return state ? `It is “${isolated(name)}”, ${STATES[state][0].toLowerCase()}. ${more}` : '';
}

function statesOf(list) {
  const { keys, only, cursor } = list;
  const button = (state, label, number) =>
    pill(`state ${state}`, html`${label} ${inWords(number)}${cursor && '+'}`, state === only, () =>
      change(list, { only: state }),
    );
  const counts = Object.entries(STATES).map(([state, [label]]) => {
    const number = keys.filter((key) => key.state === state).length;
    return number > 0 && button(state, label, number);
  });
  return html`<div class="pills line" role="group" aria-label="Show keys by state">
    ${button(null, 'All', keys.length)}${counts}
  </div>`;
}

function footerOf(list, count, showMore) {
  const { keys, cursor, callTool } = list;
  const number = countWords(keys.length);
  const total = cursor === null ? number : `the newest ${number}`;
  const whole = list.counted?.(keys.length, cursor === null) ?? total.replace('the', 'The');
  const counted = count === keys.length ? whole : `${inWords(count)} of ${total}`;
  const more = { at: 'more', label: list.moreWords ?? 'Show more', doing: 'Loading…', act: () => showMore(list) };
  return html`<footer class="line hint">
    <span role="status">${counted}</span>${cursor !== null && callTool && workButton(more)}
  </footer>`;
}
