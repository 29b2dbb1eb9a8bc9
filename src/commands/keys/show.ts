// `keys show`: shows one key, by id, by fingerprint, or by the key itself on stdin: an argument would stay in the history.

import { text } from 'node:stream/consumers';
import { createAdminStore, type KeyName } from '../../doors/admin/index.ts';
import { loadForOperators } from '../../doors/rules/index.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import { hashKey, isForeignShaped, isIdShaped, isKeyShaped } from '../../keys/record.ts';
import type { ListedChild } from '../../keys/store.ts';
import type { Uses } from '../../uses/shown-uses.ts';
import { command } from '../command.ts';
import { CommandError, type Io, localTime, UsageError } from '../io.ts';
import { flag, kind, needed } from '../options.ts';
import { sha256, withStoreToRead } from './database.ts';
import { childObject, keyObject, usesOf } from './key-output.ts';

const DAY_CHARS = 10;

const FINGERPRINT = /^[0-9a-f]{12}$/i; // some tools write capitals
const ON_STDIN = '-';

const KEY = kind(
  'id | fingerprint | -',
  'an id of 32 hex digits, or a fingerprint of 12',
  (name): KeyName | typeof ON_STDIN | null => {
    if (name === ON_STDIN) return name;
    if (isKeyShaped(name)) throw new UsageError('a key belongs on stdin: keys show -');
    if (isIdShaped(name)) return { id: name };
    return FINGERPRINT.test(name) ? { fingerprint: name.toLowerCase() } : null;
  },
);

export const verb = command({
  name: 'keys show',
  summary:
    'Shows one key, with its living children and its rules, or a child. With - it reads the key itself from stdin.',
  options: { json: flag },
  argument: needed(KEY),
  async run({ options: { json }, argument, io }) {
    const wanted = argument === ON_STDIN ? await presented(io) : argument;
    await withStoreToRead(io, async (store, { keyDefaults, publicUrl }) => {
      const nowMs = Date.now();
      const found = await createAdminStore(store.db).find(wanted);
      if (found.length === 0) {
        const shown = [];
        for (const child of await store.derived.findChildren(wanted, null)) {
          const siblings = await store.derived.listChildren(child.parentId, null, nowMs, null); // the living ones
          const living = siblings.find(({ id }) => id === child.id);
          shown.push(childObject({ ...(living ?? child), userId: child.userId }, publicUrl, living !== undefined));
        }
        return showChild(io, shown, json);
      }
      const usedOf = await usesOf(store, found);
      for (const key of found) {
        const shown = keyObject(key, { used: usedOf(key.id), keyDefaults, publicUrl });
        const parts = [
          childrenPart(await store.derived.listChildren(key.id, null, nowMs, null), publicUrl),
          key.rules === 0 ? null : await (await loadForOperators()).rulesPart(store.db, key.id, nowMs),
        ];
        if (json) await io.writeJson([Object.assign({}, shown, ...parts.map((part) => part?.object))]);
        else await writeKey(io, shown, nowMs, parts);
      }
    });
  },
});

/** What belongs to a key, as a member of its JSON and as a table; null: there is nothing. */
type KeyPart = { readonly object: object; readonly table: readonly (readonly string[])[] } | null;

function childrenPart(children: readonly ListedChild[], publicUrl: string | null): KeyPart {
  if (children.length === 0) return null;
  const object = { children: children.map((child) => childObject(child, publicUrl)) };
  const cells = ({ id, name, scopes, expiresAtMs }: ListedChild) => [
    id,
    name,
    scopes.join(' '),
    localTime(expiresAtMs),
  ];
  return { object, table: [['CHILD', 'NAME', 'SCOPES', 'EXPIRES'], ...children.map(cells)] };
}

async function showChild(io: Io, shown: readonly ReturnType<typeof childObject>[], json: boolean): Promise<void> {
  if (shown.length === 0) throw new CommandError('there is no such key');
  if (json) return io.writeJson(shown);
  for (const child of shown) await writeFields(io, { ...child, scopes: child.scopes.join(' ') });
}

const writeFields = (io: Io, fields: object): Promise<void> =>
  io.writeTable(Object.entries(fields).map(([field, value]) => [field, String(value ?? '-')]));

async function writeKey(
  io: Io,
  { uses, rateLimit, quota, metadata, rules: _, ...key }: ReturnType<typeof keyObject>,
  nowMs: number,
  parts: readonly KeyPart[],
): Promise<void> {
  await writeFields(io, {
    ...key,
    scopes: key.scopes.join(' ') || null,
    ...(rateLimit !== undefined && { rateLimit: `${rateLimit.requests}/${rateLimit.window}` }),
    ...(quota && { quota: `${quota.requests}/${quota.period}` }),
    ...(metadata && { metadata: JSON.stringify(metadata) }),
  });
  if (uses !== undefined) await io.writeTable([DAYS_HEAD, ...daysOf(uses, nowMs)]);
  for (const part of parts) if (part !== null) await io.writeTable(part.table);
}

const DAYS_HEAD = ['DAY (UTC)', 'USES'];

const daysOf = ({ last30Days }: Uses, nowMs: number): readonly (readonly string[])[] =>
  last30Days.flatMap((count, ago) =>
    count === 0 ? [] : [[new Date(nowMs - ago * MS_PER_DAY).toISOString().slice(0, DAY_CHARS), `${count}`]],
  );

async function presented({ stdin }: Io): Promise<KeyName> {
  const key = (await text(stdin)).trim();
  if (!isKeyShaped(key) && !isForeignShaped(key)) throw new CommandError('stdin: expected an API key');
  return { keyHash: hashKey(sha256, key) };
}
