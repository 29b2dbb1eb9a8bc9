// The operator's part of the page /keys, for tokens with the claim of admins: the owners with their plans, an owner
// opened, and the keys of all owners. The page loads it when such a person signs in.

import { focusOn, html, redraw } from '../../pages/widgets/draw.js';
import { pill } from '../../pages/widgets/parts.js';
import { given } from './given.js';
import { openedOwner } from './opened-owner.js';
import { allKeys } from './operator-keys.js';
import { operatorSearch } from './operator-search.js';
import { ownersList } from './owners-list.js';

/** Creates the part. `fromPage` is what the page gives (given.js). */
export function operatorPart(fromPage) {
  Object.assign(given, fromPage);
  const owners = ownersList({ open: (owner) => open(owner) });
  const search = operatorSearch({ open });
  let shown = null; // null: the person's own keys; else what is shown instead: { view, refresh, close }

  function show(next, ...places) {
    if (shown !== next) shown?.close();
    shown = next;
    given.page.notice = '';
    redraw();
    places.some(focusOn);
  }

  /** Opens an owner, with the row of `key`, if given; `said` is told about it. */
  function open(owner, key, said) {
    const changed = (item) => owners.replace(item);
    const back = () => show(owners, `owner ${owner}`, 'owners');
    const opened = openedOwner({ owner, key, said, changed, back, seek: search.seek });
    show(opened, 'owner');
    void opened.begin();
  }

  function showOwners() {
    void owners.refresh();
    show(owners, 'owners');
  }

  const tabs = [
    ['own', 'Your keys', () => shown === null, () => show(null, 'own')],
    ['owners', 'Owners', () => shown === owners || shown?.owner !== undefined, showOwners],
    ['all', 'All keys', () => shown?.isAll === true, () => show(allKeys({ open, seek: search.seek }), 'all')],
  ];
  return {
    tabs: () => html`<div class="pills line" role="group" aria-label="Whose keys">
      ${tabs.map(([at, words, isShown, act]) => pill(at, words, isShown(), act))}
    </div>`,
    /** Draws what is shown instead of the person's own keys; null if these are. */
    view: () => shown && html`<div class="stack" at="operator">${search.view()}${shown.view()}</div>`,
    refresh: () => shown?.refresh(),
    /** Begins with the owners: the person has no keys. */
    begin: showOwners,
    close: () => shown?.close(),
  };
}
