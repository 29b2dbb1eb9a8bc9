// `keys export`: writes keys as lines that `keys import` takes: their hashes, and what was decided about them.

import { createAdminStore, type PlacedKey } from '../../doors/admin/index.ts';
import { writtenLimit } from '../../ground/rate-limit.ts';
import { rfc3339 } from '../../ground/runtime.ts';
import { command } from '../command.ts';
import { OWNER, optional } from '../options.ts';
import { withStoreToRead } from './database.ts';
import { keyPages } from './key-output.ts';

export const verb = command({
  name: 'keys export',
  summary:
    'Writes keys that are not revoked as lines for keys import: hashes, no keys. Of a backup with DATABASE_URL=file:backup.db.',
  options: { user: optional(OWNER) },
  run: ({ options: { user: owner }, io }) =>
    withStoreToRead(io, async ({ db }) => {
      let [revoked, rotating] = [0, 0];
      for await (const page of keyPages(createAdminStore(db), { owner }, Date.now(), io.progressOf('keys read'))) {
        const good = page.filter(({ active }) => active);
        revoked += page.length - good.length;
        rotating += good.filter(({ second }) => second !== null).length;
        await io.writeJson(good.map(lineOf));
      }
      if (revoked > 0) io.say(`left out, because they are revoked: ${revoked}`);
      if (rotating > 0) io.say(`only with the secret in force, of the two that they have: ${rotating}`);
    }),
});

const lineOf = (key: PlacedKey) => ({
  userId: key.userId,
  name: key.name,
  keyHash: key.keyHash,
  scopes: key.scopes,
  id: key.id,
  createdAt: rfc3339(key.createdAtMs),
  ...(key.expiresAtMs !== null && { expiresAt: rfc3339(key.expiresAtMs) }),
  ...(key.rateLimit !== null && { rateLimit: writtenLimit(key.rateLimit) }),
  ...(key.quota !== null && { quota: key.quota }),
  ...(key.metadata !== null && { metadata: key.metadata }),
  ...(key.resource !== null && { resource: key.resource }),
  ...(key.foreignHash === key.keyHash && { foreign: true }),
});
