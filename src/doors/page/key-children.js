// Lists the keys that a key has made for its programs, and ends single ones.

import { hasFocus, html } from '../../pages/widgets/draw.js';
import {
  complaint,
  isTime,
  nameOf,
  scopeList,
  setup,
  timeOf,
  toldView,
  workButton,
} from '../../pages/widgets/parts.js';
import { question } from '../../pages/widgets/question.js';

const SCOPES_SHOWN = 4;
/** Shown instead of what can be loaded only after signing in again. */
export const UNREAD = 'Sign in again to see it.';

/**
 * Creates the list of a key's children. `family` has { read(id, cursor), end(id) }, which resolve with an outcome.
 * `state()` returns { children, names, cursor, failure, ending } of an open key: `children` is undefined until it was
 * read, and `names`, by id, has those that were ended meanwhile, too. `change(changed, ...places)` changes that,
 * redraws, and focuses the first place. `count(number)` takes how many there are.
 */
export function keyChildren({ id, family, state, change, count }) {
  async function read(cursor) {
    const { children: before } = state();
    const { output, failure } = await family.read(id, cursor);
    if (!Array.isArray(output?.keys)) return change({ failure: complaint(failure) || UNREAD });
    if (cursor && state().children !== before) return; // a newer beginning arrived meanwhile, or the row was closed
    const children = [...(cursor ? before : []), ...output.keys];
    const names = new Map([...(state().names ?? []), ...children.map(({ id, name }) => [id, name])]);
    if (output.nextCursor === undefined) count(children.length);
    change({ children, names, cursor: output.nextCursor, failure: undefined });
  }

  function askToEnd(child) {
    async function act() {
      const { output, failure } = await family.end(child.id);
      if (output === null) return failure;
      change({ ending: null }, ...(hasFocus(`of ${child.id}`) ? [`children ${id}`] : []));
      await read();
    }
    const ending = question({
      at: `of ${child.id}`,
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

  const row = (child, isQuiet) => html`<li class="line" at="child ${child.id}">
    <div class="line"><span>${nameOf(child.name)}</span>${scopeList(child.scopes, SCOPES_SHOWN)}
      ${isTime(child.expiresAt) && html`<span class="hint">ends ${timeOf(child.expiresAt)}</span>`}</div>
    ${!isQuiet && html`<button class="bad" at="end ${child.id}" aria-label="End ${child.name}" onclick=${() => askToEnd(child)}>End</button>`}
  </li>`;

  /** Draws the list. `isQuiet`: without buttons, as a question is open. */
  function view(isQuiet) {
    const { children, cursor, failure, ending } = state();
    const more = { at: `more children ${id}`, label: 'More', doing: 'Loading…', act: () => read(cursor) };
    const hasNoButtons = isQuiet || ending;
    return html`<div class="field" at="children ${id}" tabindex="-1">
      <h3>Keys for its programs</h3>
      ${toldView(failure ?? '')}
      ${children?.length === 0 && !failure && html`<p class="hint">All have ended.</p>`}
      ${ending?.view()}
      <ul role="list" class="children" aria-label="Keys for its programs">${children?.map((child) => row(child, hasNoButtons))}</ul>
      ${cursor !== undefined && !hasNoButtons && workButton(more)}
    </div>`;
  }
  return { read, view };
}
