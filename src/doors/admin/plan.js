// What operators set for owners and keys: reads it, says it in words, and edits it.

import { html } from '../../pages/widgets/draw.js';
import { amountWords, isCount, readLimit, readQuota, readUses } from '../../pages/widgets/key-row.js';
import { formats, inWords, isolated } from '../../pages/widgets/parts.js';
import { keyFields, keyIn, limitFields, limitsIn } from './shared-by-page.js';

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the operator's data on an owner or a key; null: none. */
export const metadataOf = ({ metadata }) => (isObject(metadata) ? metadata : null);

/**
 * Returns a list with the owner, or an empty one if the item isn't an owner. What is left of a quota is counted from its
 * share.
 */
export function readOwner(item) {
  if (typeof item?.owner !== 'string' || !isCount(item.keys) || !isCount(item.keysMax)) return [];
  const quota = readQuota(item.quota);
  const { quotaShare: share } = item;
  const remaining = quota && typeof share === 'number' ? Math.round(quota.requests * (1 - Math.min(1, share))) : null;
  return [
    {
      owner: item.owner,
      blocked: item.blocked === true,
      keys: item.keys,
      keysMax: item.keysMax,
      uses: readUses(item.uses) ?? { today: 0, days: Array(30).fill(0) },
      quota: quota && { ...quota, remaining },
      limit: readLimit(item.rateLimit),
      metadata: metadataOf(item),
    },
  ];
}

export const dataWords = (metadata) => (metadata === null ? 'none' : Object.entries(metadata).map(lineOf).join(', '));
/** Returns a quota or a limit in words. */
export const orNone = (amount) => (amount === null ? 'none' : amountWords(amount));

/** Returns the settings of an owner in words, to compare what two admins saw. */
export const planWords = ({ limit, quota, keysMax, metadata }) => ({
  Limit: orNone(limit),
  Quota: orNone(quota),
  'Keys, at most': inWords(keysMax),
  Data: isolated(dataWords(metadata)),
});

/** Returns the settings of a key in words. */
export const keyWords = ({ name, scopes, expiresAt, limit, quota, metadata }) => ({
  Name: isolated(name),
  Scopes: scopes.join(' ') || 'none',
  Ends: expiresAt === null ? 'never' : formats.short.format(expiresAt),
  Limit: orNone(limit),
  Quota: orNone(quota),
  Data: isolated(dataWords(metadata)),
});

/** Returns what has changed between two such records, in words. */
const changedIn = (before, now) =>
  Object.keys(now)
    .filter((name) => before[name] !== now[name])
    .map((name) => `${name}: was ${before[name]}, is ${now[name]}`)
    .join('; ');

/**
 * Saves an edit, unless another admin has changed the owner or key since it began: then asks again. Resolves as `save` of
 * keyPanels. `before` and `now` are what it was then and is now, `write` sends the edit, `read` reads the tool's output,
 * `wordsOf` says the settings in words.
 */
export async function saveUnchanged({ before, now, write, read, wordsOf }) {
  const meanwhile = changedIn(wordsOf(before), wordsOf(now));
  if (meanwhile !== '') {
    const failure = `It was changed meanwhile: ${meanwhile}. Save again to go on all the same.`;
    return { output: null, failure, now };
  }
  const saved = await write();
  const [item] = read(saved.output);
  if (item === undefined) return saved;
  const changed = changedIn(wordsOf(now), wordsOf(item));
  // Events have the names of fields, and no values.
  return {
    ...saved,
    said: changed === '' ? 'Saved.' : `Saved. ${changed}. Note what it was: the history has no values.`,
  };
}

/** Draws the field for data of the operator's own, a line for each name. */
const dataField = (id, metadata) => html`<div class="field">
  <label for="data-${id}">Data</label>
  <textarea id="data-${id}" name="data" rows="3" autocomplete="off" placeholder="plan=pro"
    aria-describedby="data-hint-${id}">${Object.entries(metadata ?? {}).map((pair) => `${lineOf(pair)}\n`)}</textarea>
  <p id="data-hint-${id}" class="hint">Your own, a line each: plan=pro. Whoever has a key can read it.</p>
</div>`;

/** Returns the line of a name and its value, in which a sign stands for each line break. */
const lineOf = (pair) => pair.join('=').replace(/\r\n|[\r\n]/g, '↵');

/**
 * Returns the data in a typed text; null if it is empty, a sentence if a line has no name, or that of another. A line of
 * `before` is kept.
 */
function dataIn(text, before) {
  const kept = new Map(Object.entries(before ?? {}).map((pair) => [lineOf(pair), pair]));
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  if (lines.some((line) => !/^\s*[^=\s]+\s*=/.test(line)))
    return 'Data needs a name and a value in each line: plan=pro.';
  const pairs = lines.map((line) => kept.get(line) ?? line.split(/=(.*)/s, 2).map((part) => part.trim()));
  const names = pairs.map(([name]) => name);
  const twice = names.find((name, at) => names.indexOf(name) < at);
  if (twice !== undefined) return `Data has the name ${twice} twice.`;
  return pairs.length === 0 ? null : Object.fromEntries(pairs);
}

const isSame = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
const sorted = (value) =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;

/** Returns the fields of `now` that differ from `before`, or a sentence if there are none. */
function touched(before, now) {
  const fields = Object.entries(now).filter(([name, value]) => value !== undefined && !isSame(before[name], value));
  return fields.length === 0 ? 'Nothing is changed yet.' : Object.fromEntries(fields);
}

const quotaOnly = (quota) => quota && { requests: quota.requests, period: quota.period };

/** Returns the edit of an owner's plan (key-panel.js of the page). `owner()` is the owner so far. */
export const planEdit = (owner) => ({
  label: 'Change the plan',
  first: () => 'quota-plan',
  view(_, form) {
    const { limit, quota, keysMax, metadata } = owner();
    const before = { rateLimit: limit, quota: quotaOnly(quota), keysMax, metadata };
    function read(typed) {
      const { rateLimit = null, quota: wanted = null } = limitsIn(typed);
      const data = dataIn(typed.get('data'), metadata);
      if (typeof data === 'string') return data;
      const most = typed.get('keys-max');
      return touched(before, { rateLimit, quota: wanted, keysMax: most === '' ? null : Number(most), metadata: data });
    }
    const fields = html`<div class="line">
        ${limitFields({ at: '-plan', limit, quota, units: ['m', 'h', 'd'] }).reverse()}
        <div class="field">
          <label for="keys-max">Keys, at most</label>
          <input id="keys-max" name="keys-max" type="number" min="0" max="10000" value=${keysMax} placeholder="the server’s" />
        </div>
      </div>
      ${dataField('plan', metadata)}`;
    return form({ read, words: 'For all keys together. An empty field is the server’s default.', fields });
  },
});

/** The edit of what an admin may change of a key. */
export const keyEdit = {
  label: 'Change',
  first: ({ id }) => `name-${id}`,
  view({ id, name, scopes, limit, quota, metadata }, form) {
    const before = { name, scopes: scopes.toSorted(), rateLimit: limit, quota: quotaOnly(quota), metadata };
    function read(typed) {
      const { name: wanted, scopes: left, expiresInDays, rateLimit = null, quota: most = null } = keyIn(typed);
      const data = dataIn(typed.get('data'), metadata);
      if (typeof data === 'string') return data;
      const now = { name: wanted, scopes: left.toSorted(), expiresInDays, rateLimit, quota: most, metadata: data };
      return touched(before, now);
    }
    const fields = html`${keyFields({ at: `-${id}`, name, ticked: scopes, daysUsual: null, limit, quota })}
      ${dataField(id, metadata)}`;
    return form({ read, fields });
  },
};
