// The list of owners, each with the plan in force and what was used.

import { change, focusOn, hasFocus, html } from '../../pages/widgets/draw.js';
import { usesWords } from '../../pages/widgets/key-row.js';
import { quotaBar } from '../../pages/widgets/owner-line.js';
import { complaint, countWords, inWords, nameOf, toldView, workButton } from '../../pages/widgets/parts.js';
import { readOwner } from './plan.js';
import { callTool } from './shared-by-page.js';

/** Creates the list. `open(owner)` opens one. */
export function ownersList({ open }) {
  const list = { owners: [], cursor: null, instead: 'Loading owners…', status: '', asked: 0 };
  return {
    refresh: () => load(list),
    has: (name) => list.owners.some(({ owner }) => owner === name),
    /** Takes the newer version of an owner, which a tool returned. */
    replace(item) {
      const [owner] = readOwner(item);
      const isIt = (other) => other.owner === owner?.owner;
      if (owner) change(list, { owners: list.owners.map((other) => (isIt(other) ? owner : other)) });
    },
    view: () => viewOf(list, open),
    close() {},
  };
}

async function load(list, cursor) {
  list.asked += 1;
  const { asked } = list;
  const { output, failure } = await callTool('admin_list_owners', cursor === undefined ? {} : { cursor });
  if (list.asked !== asked) return;
  if (!Array.isArray(output?.owners)) {
    const words = complaint(`The owners could not be listed. ${failure}`);
    return change(list, list.owners.length > 0 ? { status: words } : { instead: words });
  }
  const hadFocus = hasFocus('more owners');
  const before = cursor === undefined ? [] : list.owners;
  const added = output.owners.flatMap(readOwner);
  const names = new Set(added.map(({ owner }) => owner));
  change(list, {
    owners: [...before.filter(({ owner }) => !names.has(owner)), ...added],
    cursor: typeof output.nextCursor === 'string' ? output.nextCursor : null,
    instead: '',
    status: '',
  });
  if (hadFocus && added.length > 0) focusOn(`owner ${added[0].owner}`);
}

function viewOf(list, open) {
  const { owners, cursor, instead, status } = list;
  if (instead !== '') return html`<div class="card empty" at="owners list">${instead}</div>`;
  const count = countWords(owners.length, 'owner');
  const more = { at: 'more owners', label: 'Show more', doing: 'Loading…', act: () => load(list, cursor) };
  return html`<section class="card flush keys" at="owners list" aria-labelledby="owners-title">
    <header class="field">
      <div class="line"><h2 id="owners-title">Owners</h2>${toldView(status, 'end')}</div>
    </header>
    <div class="scroll">
      <ul role="list" aria-label="Owners">${owners.map((owner) => rowOf(owner, open))}</ul>
      ${owners.length === 0 && html`<p class="empty hint">Nobody has keys or settings yet.</p>`}
    </div>
    <footer class="line hint">
      <span role="status">${cursor === null ? count : `The first ${count}`}</span>
      ${cursor !== null && html`<span class="end">${workButton(more)}</span>`}
    </footer>
  </section>`;
}

/** Returns how much of a quota is used, in per cent: 100 only if nothing is left. */
const percentOf = ({ requests, remaining }) => Math.floor((100 * (requests - remaining)) / requests);

const rowOf = ({ owner, keys, keysMax, uses, quota, blocked }, open) => html`<li class="row" at="row of ${owner}">
  <div class="line"><span class="name">${nameOf(owner)}</span></div>
  ${blocked ? html`<span class="state bad">Blocked</span>` : html`<span></span>`}
  <div class="facts hint line">
    <span class="when">${inWords(keys)} of ${countWords(keysMax)}</span>
    <span class="when">${usesWords(uses)}</span>
    ${quota && quotaBar(quota, `, ${percentOf(quota)} %`)}
  </div>
  <div class="buttons line">
    <button at="owner ${owner}" aria-label="Open ${owner}" onclick=${() => open(owner)}>Open</button>
  </div>
</li>`;
