// An owner, opened: the plan, whether the owner is blocked, the end of all keys, the trail, and the keys.

import { change, focusOn, hasFocus, html } from '../../pages/widgets/draw.js';
import { usesWords } from '../../pages/widgets/key-row.js';
import { quotaBar } from '../../pages/widgets/owner-line.js';
import { complaint, countWords, inWords, nameOf, setup, toldView } from '../../pages/widgets/parts.js';
import { question } from '../../pages/widgets/question.js';
import { operatorKeys, whoDid } from './operator-keys.js';
import { dataWords, orNone, planEdit, planWords, readOwner, saveUnchanged } from './plan.js';
import { callTool, keyPanels, page, request } from './shared-by-page.js';

const WORDS = {
  blocked: 'Blocked',
  unblocked: 'Unblocked',
  owner_deleted: 'Removed, with all keys',
  keysMax: 'Most keys changed',
};

/**
 * Opens an owner. `key`, as listed, is a key whose row opens, too, and `said` what is told about it. `changed(item)`
 * takes what a tool returned; `back` leaves the owner; `seek(key)`: see operatorKeys.
 */
export function openedOwner({ owner: name, key, said, changed, back, seek }) {
  const opened = {
    name,
    changed,
    back,
    owner: null,
    instead: 'Loading…',
    question: null,
    status: '',
    isNew: false,
    reading: null,
  };
  opened.list = operatorKeys({ args: { owner: name }, title: html`Keys of ${nameOf(name)}`, seek });
  opened.panels = keyPanels({
    async events(owner, cursor) {
      opened.reading = request('/keys/events', { owner, cursor });
      const read = await opened.reading;
      if (cursor === undefined) opened.isNew = read.output?.events?.length === 0;
      return read;
    },
    save: (_, fields, before) => save(opened, fields, before),
    replace(_, item, said = '') {
      take(opened, item);
      change(opened, { status: said });
    },
    edits: { plan: planEdit(() => opened.owner) },
    words: WORDS,
    who: whoDid,
  });
  opened.panels.open(rowOf(opened));
  return {
    owner: name,
    async begin() {
      const above = Promise.all([load(opened), opened.list.load(), opened.reading]);
      if (key !== undefined) opened.list.reveal(key, said);
      await above;
      if (key !== undefined) opened.list.center(key.id); // what came above has moved it
    },
    async refresh() {
      opened.panels.readHistory(name);
      await Promise.all([load(opened), opened.list.refresh()]);
    },
    view: () => html`${ownerView(opened)}
      ${!isUnknown(opened) && html`<div class="card flush" at="listed">${opened.list.view()}</div>`}`,
    close: () => opened.list.close(),
  };
}

/** Returns what a panel needs of a row: the owner's name is its id. */
const rowOf = ({ name, owner }) => ({ ...owner, id: name, name, state: 'active', children: 0 });

function take(opened, item) {
  const [owner] = readOwner(item);
  if (owner) change(opened, { owner, instead: '' });
  opened.changed(item);
}

async function save({ name: owner }, fields, before) {
  const found = await callTool('admin_update_owner', { owner });
  const [now] = readOwner(found.output);
  if (now === undefined) return { ...found, output: null };
  const write = () => callTool('admin_update_owner', { owner, ...fields });
  return saveUnchanged({ before, now, write, read: readOwner, wordsOf: planWords });
}

async function load(opened) {
  const { output, failure } = await callTool('admin_update_owner', { owner: opened.name });
  if (output !== null) {
    opened.status = '';
    return take(opened, output);
  }
  change(opened, { [opened.owner === null ? 'instead' : 'status']: complaint(failure) });
}

/** Asks before something is done, and does it. `act` resolves with why it failed, or nothing. */
function ask(opened, { place, act, ...parts }) {
  const { name, panels } = opened;
  const close = () => {
    const hadFocus = hasFocus(`of ${name}`);
    change(opened, { question: null });
    if (hadFocus) focusOn(place);
  };
  const asked = question({
    at: `of ${name}`,
    ...parts,
    close,
    async act() {
      const failure = await act();
      if (failure !== undefined) return failure;
      panels.readHistory(name);
      close();
    },
  });
  change(opened, { question: asked, status: '' });
  focusOn(`cancel of ${name}`);
}

function askToBlock(opened, blocked) {
  const { name, owner } = opened;
  const keys = countWords(owner.keys);
  const words = blocked
    ? html`Block ${nameOf(name)}? ${keys} and all user tokens are ${setup.refused}. Nothing is deleted: keys, plan and history stay, and unblocking brings them back.`
    : html`Unblock ${nameOf(name)}? ${keys} and user tokens are accepted again, as far as they have not ended.`;
  const verb = blocked ? 'Block' : 'Unblock';
  async function act() {
    const { output, failure } = await callTool('admin_update_owner', { owner: name, blocked });
    if (output === null) return failure;
    opened.status = `${verb}ed`;
    take(opened, output);
  }
  ask(opened, {
    label: `${verb} ${name}?`,
    words,
    verb,
    doing: `${verb}ing…`,
    ends: blocked,
    place: `block ${name}`,
    act,
  });
}

function askToRevoke(opened) {
  const { name, owner, list } = opened;
  const words = html`Revoke all keys of ${nameOf(name)}? ${countWords(owner.keys)}, in any state: programs that use them are ${setup.refused}. They stay in the list, as revoked, with their history. He can make new ones; block him to prevent that.`;
  async function act() {
    const { output, failure } = await callTool('admin_revoke_keys', { owner: name });
    if (output === null) return failure;
    await Promise.all([load(opened), list.load()]);
    opened.status = `${countWords(output.revoked)} revoked`;
  }
  const label = `Revoke all of ${name}?`;
  ask(opened, { label, words, verb: 'Revoke all', doing: 'Revoking…', ends: true, place: `revoke all ${name}`, act });
}

const button = (at, words, look, act) => html`<button class=${look} at=${at} onclick=${act}>${words}</button>`;

function actionsOf(opened) {
  const { name, owner } = opened;
  const { blocked, keys } = owner;
  const isMe = page.session?.owner === name; // nobody blocks the owner that he is
  return html`<div class="line">
    ${opened.panels.buttons(rowOf(opened))}
    ${!isMe && button(`block ${name}`, blocked ? 'Unblock' : 'Block', !blocked && 'bad', () => askToBlock(opened, !blocked))}
    ${keys > 0 && button(`revoke all ${name}`, 'Revoke all keys', 'bad', () => askToRevoke(opened))}
  </div>`;
}

const planView = ({ limit, quota, keys, keysMax, metadata, uses }) => html`<dl>
  <dt>Keys</dt><dd>${inWords(keys)} of ${inWords(keysMax)}</dd>
  <dt>Uses</dt><dd>${usesWords(uses)}</dd>
  <dt>Limit</dt><dd>${orNone(limit)}</dd>
  <dt>Quota</dt><dd>${quota === null ? 'none' : quotaBar(quota, `, ${inWords(quota.remaining ?? 0)} left`)}</dd>
  <dt>Data</dt><dd><bdi>${dataWords(metadata)}</bdi></dd>
</dl>`;

/** Returns whether there is nothing of the owner: a name that nobody has. */
const isUnknown = ({ owner, isNew }) => isNew && owner?.keys === 0 && !owner.blocked && owner.metadata === null;

const UNKNOWN =
  'Nobody of exactly this name has a key, or a history. A plan that is set now holds once there is a key.';

function ownerView(opened) {
  const { name, owner, instead, question: asked, status, panels, back } = opened;
  const head = html`<header class="line">
    ${button('back', '← Owners', '', back)}
    <h2 at="owner" tabindex="-1">${nameOf(name)}</h2>
    ${owner?.blocked && html`<span class="state bad">Blocked</span>`}
    ${toldView(status, 'end')}
  </header>`;
  if (owner === null) return html`<section class="card stack" at="opened">${head}<div>${instead}</div></section>`;
  const isNobody = isUnknown(opened);
  return html`<section class="card stack" at="opened" aria-label="Owner ${name}">
    ${head}
    ${isNobody && html`<p class="warn">${UNKNOWN}</p>`}
    ${owner.keys === 0 && !isNobody && html`<p class="hint">Nobody of exactly this name has a key.</p>`}
    ${isNobody ? html`<details><summary>The plan that would hold</summary>${planView(owner)}</details>` : planView(owner)}
    ${asked === null && !panels.isAsking(name) && actionsOf(opened)}
    ${asked?.view()}
    ${panels.editView(rowOf(opened))}
    ${!isNobody && panels.historyView(rowOf(opened), asked !== null || panels.isAsking(name))}
    ${owner.keys > 0 && html`<p class="hint">What happened to a key is in the history of its own row: “…”.</p>`}
  </section>`;
}
