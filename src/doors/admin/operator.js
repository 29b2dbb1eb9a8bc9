// The operator's part of the page /keys, for tokens with the claim of admins: the owners with their plans, an owner
// opened, and the keys of all owners. The page loads it when such a person signs in.

import { focusOn, html, redraw } from '../../pages/widgets/draw.js';
import { pill } from '../../pages/widgets/parts.js';
import { openedOwner } from './opened-owner.js';
import { allKeys } from './operator-keys.js';
import { operatorSearch } from './operator-search.js';
import { ownersList } from './owners-list.js';
import { page } from './shared-by-page.js';

/** Creates the part. */
export function operatorPart() {
  const owners = ownersList({ open: (owner) => open(owner) });
  const search = operatorSearch({ open, shown: () => shown });
  let shown = null; // null: the person's own keys; else what is shown instead: { view, refresh, close }

  function show(next, ...places) {
    if (shown !== next) shown?.close();
    shown = next;
    page.notice = '';
    redraw();
    places.some(focusOn);
  }

  /** Opens an owner, with the row of `key`, if given; `said` is told about it. */
  function open(owner, key, said) {
    const changed = (item) => owners.replace(item);
    const back = () => {
      if (!owners.has(owner)) void owners.refresh(); // what was decided may have brought him there
      show(owners, `owner ${owner}`, 'owners');
    };
    const opened = openedOwner({ owner, key, said, changed, back, seek: search.seek });
    show(opened, 'owner');
    return opened.begin();
  }

  function showOwners() {
    void owners.refresh();
    show(owners, 'owners');
  }

  function showAll(only) {
    const all = allKeys({ open, seek: search.seek }, only);
    show(all, 'all');
    return all.begin();
  }

  const tabs = [
    ['own', 'Your keys', () => shown === null, () => show(null, 'own')],
    ['owners', 'Owners', () => shown === owners || shown?.owner !== undefined, showOwners],
    ['all', 'All keys', () => shown?.only !== undefined, () => showAll(null)],
  ];
  return {
    tabs: () => html`<div class="pills line" role="group" aria-label="Whose keys">
      ${tabs.map(([at, words, isShown, act]) => pill(at, words, isShown(), act))}
    </div>`,
    /** Draws what is shown instead of the person's own keys; null if these are. */
    view: () => shown && html`<div class="stack" at="operator">${search.view()}${shown.view()}</div>`,
    refresh: () => shown?.refresh(),
    /** Returns what is shown instead of the person's own keys, as JSON can store it; null if these are. */
    place: () => shown && { owner: shown.owner, only: shown.only?.() },
    /** Shows what `place` returned: an owner, the keys of all owners, or the list of owners. Resolves once it is loaded. */
    show: ({ owner, only }) => (owner !== undefined ? open(owner) : only !== undefined ? showAll(only) : showOwners()),
    close: () => shown?.close(),
  };
}
