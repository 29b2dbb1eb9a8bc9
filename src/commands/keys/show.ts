// `keys show`: one key, by id, by fingerprint, or by the key itself on stdin: an argument would stay in the history.

import { text } from 'node:stream/consumers';
import type { KeyName } from '../../keys/admin.ts';
import { hashKey, isIdShaped, isKeyShaped } from '../../keys/key-format.ts';
import { MS_PER_DAY } from '../../lib/duration.ts';
import type { Uses } from '../../uses/shown-uses.ts';
import { argumentsOf, oneOf } from './arguments.ts';
import { orFail, sha256, withStore } from './database.ts';
import { keyObject, usesOf } from './shown-key.ts';
import { writeJson, writeTable } from './terminal.ts';
import { CommandError, UsageError, type Verb } from './verb.ts';

const DAY_CHARS = 10;

const FINGERPRINT = /^[0-9a-f]{12}$/;

export const verb: Verb = {
  usage: 'show <id | fingerprint | -> [--json]',
  summary: 'Shows one key. With - it reads the key itself from stdin.',
  async run(args, env) {
    const { values, positionals } = argumentsOf(args, { json: { type: 'boolean' } }, 1);
    const name = oneOf(positionals, 'key');
    const wanted = name === '-' ? await presented() : named(name);
    await withStore(env, async (store, { keyQuota }) => {
      const nowMs = Date.now();
      const found = orFail(await store.admin.find(wanted));
      if (found.length === 0) throw new CommandError('there is no such key');
      const uses = await usesOf(store, found);
      const shown = found.map((key) => keyObject(key, { uses: uses.get(key.id), keyQuota }));
      if (values.json) return writeJson(shown);
      for (const { uses, rateLimit, quota, ...key } of shown) {
        const fields = {
          ...key,
          scopes: key.scopes.join(' ') || null,
          ...(rateLimit !== undefined && { rateLimit: `${rateLimit.requests}/${rateLimit.window}` }),
          ...(quota && { quota: `${quota.requests}/${quota.period}` }),
        };
        await writeTable(Object.entries(fields).map(([field, value]) => [field, String(value ?? '-')]));
        if (uses !== undefined) await writeTable(daysOf(uses, nowMs));
      }
    });
  },
};

/** UTC days with uses, the latest first. */
const daysOf = ({ last30Days }: Uses, nowMs: number): readonly (readonly string[])[] =>
  last30Days.flatMap((count, ago) =>
    count === 0 ? [] : [[new Date(nowMs - ago * MS_PER_DAY).toISOString().slice(0, DAY_CHARS), `${count}`]],
  );

function named(name: string): KeyName {
  if (isIdShaped(name)) return { id: name };
  if (FINGERPRINT.test(name)) return { fingerprint: name };
  const hint = isKeyShaped(name) ? '; a key belongs on stdin: keys show -' : '';
  throw new UsageError(`expected an id of 32 hex digits, or a fingerprint of 12${hint}`);
}

async function presented(): Promise<KeyName> {
  const key = (await text(process.stdin)).trim();
  if (!isKeyShaped(key)) throw new CommandError('stdin: expected an API key');
  return { keyHash: hashKey(sha256, key) };
}
