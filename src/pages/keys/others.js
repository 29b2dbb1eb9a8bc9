// The second view of the page, for admins: the keys of all owners.

import { html } from '../widgets/html.js';
import { nameOf } from '../widgets/parts.js';

export const OWN = { tool: 'list_api_keys', args: {} };

export const areOthers = ({ tool }) => tool === 'admin_list_keys';

/** The keys of `owner`; '': of everybody. */
export const keysOf = (owner) => ({ tool: 'admin_list_keys', args: owner === '' ? {} : { owner } });

export function viewButtons(view, show) {
  const button = (at, label, isPressed, next) => html`<button type="button" at=${at} aria-pressed=${String(isPressed)}
    onclick=${() => isPressed || show(next)}>
    ${label}
  </button>`;
  return html`<div class="pills line" role="group" aria-label="Whose keys">
    ${button('own', 'Your keys', !areOthers(view), OWN)}${button('all', 'All keys', areOthers(view), keysOf(''))}
  </div>`;
}

export function searchForm({ args: { owner } }, { show, ask }) {
  const submit = (event) => {
    event.preventDefault();
    show(keysOf(new FormData(event.target).get('owner')));
  };
  const revoke = html`<button type="button" class="bad end" at="revoke all" onclick=${ask}>
    Revoke all of ${nameOf(owner ?? '')}
  </button>`;
  return html`<form class="line" role="search" at="search form" onsubmit=${submit}>
    <label for="owner-wanted">Owner, exactly</label>
    <input id="owner-wanted" name="owner" maxlength="510" autocomplete="off" autocapitalize="off" spellcheck="false" />
    <button>Show keys</button>
    ${owner !== undefined && revoke}
  </form>`;
}
