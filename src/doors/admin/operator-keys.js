// Lists of keys for admins: of all owners, or of one.

import { change, html } from '../../pages/widgets/draw.js';
import { readKey } from '../../pages/widgets/key-row.js';
import { keysList } from '../../pages/widgets/keys-list.js';
import { countWords, inWords, pill } from '../../pages/widgets/parts.js';
import { dataWords, keyEdit, keyWords, metadataOf, saveUnchanged } from './plan.js';
import { callTool, keyPanels, request } from './shared-by-page.js';

const CALLS = { revoke: (id) => ['admin_revoke_keys', { keyIds: [id] }] };

const withData = (key) => ({ ...key, metadata: metadataOf(key.item) });

/**
 * Creates the list of keys that `args` of admin_list_keys name. `open(owner)`, if given, opens the owner of a row;
 * `seek(key)` looks for a key that is pasted into its search.
 */
export function operatorKeys({ args, title, open, ...options }) {
  return keysList({
    callTool,
    source: { tool: 'admin_list_keys', args },
    calls: CALLS,
    title,
    none: 'No keys',
    hints: null,
    own: (list) => operatorPanels(list, open),
    ...options,
  });
}

function operatorPanels(list, open) {
  const panels = keyPanels({
    ...list,
    events: (keyId, cursor) => request('/keys/events', { keyId, cursor }),
    save,
    family: {
      read: (id, cursor) => callTool('admin_list_keys', { childrenOf: id, cursor }),
      end: (id) => callTool(...CALLS.revoke(id)),
    },
    edits: { change: { ...keyEdit, view: (key, form) => keyEdit.view(withData(key), form) } },
    who: whoDid,
  });
  const dataView = (key) =>
    metadataOf(key.item) &&
    html`<p class="hint" at="data of ${key.id}">Data: <bdi>${dataWords(metadataOf(key.item))}</bdi></p>`;
  const opener = ({ owner }) => html`<button onclick=${() => open(owner)}>Open the owner <bdi>${owner}</bdi></button>`;
  return {
    ...panels,
    buttons: (key) => [open && opener(key), panels.buttons(key)],
    editView: (key) => [dataView(key), panels.editView(key)],
  };
}

const HOWS = {
  command: 'a command',
  import: 'an import',
  sql: 'a statement in the database',
  possession: 'somebody who had the key',
  use: 'its first use',
};
const WITHOUT_PERSON = ['connected', 'delegated'];

/** Returns words about who did something, for an admin, who may see all of it. */
export const whoDid = ({ kind, how, actor }) =>
  WITHOUT_PERSON.includes(kind) ? actor : [actor, HOWS[how]].filter(Boolean).join(', by ');

async function save(keyId, fields, before) {
  const listed = await callTool('admin_list_keys', { keyId });
  if (listed.output === null) return listed;
  const [now] = listed.output.keys.flatMap(readKey);
  if (now === undefined) return { output: null, failure: 'This key was deleted meanwhile.' };
  const write = () => callTool('admin_update_key', { keyId, ...fields });
  return saveUnchanged({ before, now, write, read: readKey, wordsOf: (key) => keyWords(withData(key)) });
}

const CHOICES = {
  expiring: 'Expire within 7 days',
  never_expires: 'Never expire',
  unused: 'Unused for 90 days',
};

/**
 * Creates the view of all keys, or of those that may be trouble: of a choice `only`, or null. `ways`: `open` and `seek`
 * of operatorKeys.
 */
export function allKeys(ways, only) {
  const view = { only, list: null };
  const begun = choose(view, only, ways);
  return {
    /** Resolves once the keys are loaded. */
    begin: () => begun,
    only: () => view.only,
    refresh: () => view.list.refresh(),
    view: () => html`<div class="pills line" role="group" aria-label="Which keys">
        ${pill('any', 'All', view.only === null, () => choose(view, null, ways))}
        ${Object.entries(CHOICES).map(([only, label]) =>
          pill(`only ${only}`, label, view.only === only, () => choose(view, only, ways)),
        )}
      </div>
      <div class="card flush" at="listed">${view.list.view()}</div>`,
    close: () => view.list.close(),
  };
}

function choose(view, only, ways) {
  view.list?.close();
  let looked = 0;
  const list = operatorKeys({
    args: only === null ? {} : { only },
    title: only === null ? 'All keys' : CHOICES[only],
    ...ways,
    order: only === 'expiring' ? 'expires' : 'created',
    took(output, isFirst) {
      looked = (isFirst ? 0 : looked) + (output.looked ?? 0);
    },
    ...(only !== null && {
      counted: (count, isWhole) =>
        `${inWords(count)} found; looked through ${countWords(looked)}${isWhole ? '' : ' so far'}`,
      moreWords: 'Look further',
    }),
  });
  change(view, { only, list });
  return list.load();
}
