// The second view of the page, for admins: the keys of all owners.

import { html } from '../widgets/draw.js';
import { nameOf, setup } from '../widgets/parts.js';
import { question } from '../widgets/question.js';
import { callTool, page, set, show } from './session.js';

export function viewButtons() {
  const button = (at, label, isPressed, whose) => html`<button type="button" at=${at} aria-pressed=${String(isPressed)}
    onclick=${() => isPressed || show(whose)}>
    ${label}
  </button>`;
  const isOwn = page.whose === null;
  return html`<div class="pills line" role="group" aria-label="Whose keys">
    ${button('own', 'Your keys', isOwn, null)}${button('all', 'All keys', !isOwn, '')}
  </div>`;
}

export function searchForm() {
  const { whose } = page;
  const search = ({ target }) => show(new FormData(target).get('owner'));
  const revoke = html`<button type="button" class="bad end" at="revoke all" onclick=${() => askToRevokeAll(whose)}>
    Revoke all of ${nameOf(whose)}
  </button>`;
  return html`<form class="line" role="search" at="search form" onsubmit=${search}>
    <label for="owner-wanted">Owner, exactly</label>
    <input id="owner-wanted" name="owner" maxlength="510" autocomplete="off" autocapitalize="off" spellcheck="false" />
    <button>Show keys</button>
    ${whose !== '' && revoke}
  </form>`;
}

function askToRevokeAll(owner) {
  const { list } = page;
  async function act() {
    const { output, failure } = await callTool('admin_revoke_keys', { owner });
    if (page.list !== list) return; // the keys of somebody else are shown meanwhile
    if (output === null) return failure;
    show(owner);
    set({ notice: output.revoked === 1 ? '1 key revoked.' : `${output.revoked} keys revoked.` }, 'revoke all');
  }
  const asked = question({
    at: 'of all',
    look: 'card',
    label: `Revoke all of ${owner}?`,
    words: html`Revoke all keys of ${nameOf(owner)}? Programs that use them are ${setup.refused}.`,
    verb: 'Revoke all',
    doing: 'Revoking…',
    ends: true,
    act,
    close: () => set({ question: null }, 'revoke all'),
  });
  set({ question: asked }, 'cancel of all');
}
