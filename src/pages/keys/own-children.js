// Lists the keys that a key has made for its programs, and ends single ones.

import { html } from '../widgets/draw.js';
import { nameOf, scopeList, setup, timeOf, workButton } from '../widgets/parts.js';
import { question } from '../widgets/question.js';

const SCOPES_SHOWN = 4;
/** Shown instead of what can be loaded only after signing in again. */
export const UNREAD = 'Sign in again to see it.';

/**
 * Creates the list of a key's children. `state()` returns { children, cursor, failure, ending } of an open key.
 * `change(changed, ...places)` changes that, redraws, and focuses the first place.
 */
export function ownChildren({ id, request, state, change }) {
  async function read(cursor) {
    const { output, failure } = await request('/tools/list_api_keys', { childrenOf: id, cursor });
    if (!Array.isArray(output?.keys)) return change({ failure: failure || UNREAD });
    const before = cursor === undefined ? [] : state().children;
    change({ children: [...before, ...output.keys], cursor: output.nextCursor, failure: undefined });
  }

  function askToEnd(child) {
    async function act() {
      const { output, failure } = await request('/tools/revoke_api_key', { keyId: child.id });
      if (output?.success !== true) return failure;
      change({ ending: null }, `children ${id}`);
      await read();
    }
    const ending = question({
      at: `of ${child.id}`,
      look: 'inset',
      label: `End ${child.name}?`,
      words: html`End ${nameOf(child.name)}? Programs that use it are ${setup.refused}.`,
      verb: 'End',
      doing: 'Ending…',
      ends: true,
      act,
      close: () => change({ ending: null }, `end ${child.id}`),
    });
    change({ ending }, `cancel of ${child.id}`);
  }

  const row = (child) => html`<li class="line" at="child ${child.id}">
    <span>${nameOf(String(child.name))}</span>${scopeList(child.scopes, SCOPES_SHOWN)}
    <span class="hint">ends ${timeOf(child.expiresAt)}</span>
    <button type="button" class="bad" at="end ${child.id}" aria-label="End ${child.name}" onclick=${() => askToEnd(child)}>End</button>
  </li>`;

  function view() {
    const { children, cursor, failure, ending } = state();
    const more = { at: `more children ${id}`, label: 'More', doing: 'Loading…', act: () => read(cursor) };
    return html`<div class="field" at="children ${id}" tabindex="-1">
      <h3>Keys for its programs</h3>
      ${failure && html`<p class="hint" role="status">${failure}</p>`}
      ${children.length === 0 && !failure && html`<p class="hint">All have ended.</p>`}
      ${ending?.view()}
      <ul role="list" class="children" aria-label="Keys for its programs">${children.map(row)}</ul>
      ${cursor !== undefined && workButton(more)}
    </div>`;
  }
  return { read, view };
}
