// A key as lists show it: never the key itself.

import * as v from 'valibot';
import { epochMs } from '../calls/schema.ts';
import type { OwnKey } from '../keys/operations.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { Rotation } from '../keys/rotation.ts';

export const listedKeyFields = {
  id: v.string(),
  name: v.string(),
  scopes: v.array(v.string()),
  active: v.pipe(v.boolean(), v.description('False once revoked.')),
  fingerprint: v.pipe(
    v.string(),
    v.description(
      'The first 12 hex digits of the SHA-256 of the key, of its secret in force: whoever finds a key can tell whose it is.',
    ),
  ),
  createdAt: v.pipe(epochMs, v.description('Milliseconds since the Unix epoch.')),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  expired: v.optional(v.pipe(v.literal(true), v.description('Present once it has expired.'))),
  lastUsedAt: v.optional(v.pipe(epochMs, v.description('Milliseconds since the Unix epoch; absent until first use.'))),
  rotation: v.optional(
    v.pipe(
      v.strictObject({
        state: v.picklist(['until_first_use', 'overlapping']),
        previousUntil: v.optional(epochMs),
        otherFingerprint: v.string(),
      }),
      v.description('While the key has two secrets: the new one was not used yet, or the previous one still runs out.'),
    ),
  ),
};

export const listedKey = (key: OwnKey) => ({
  id: key.id,
  name: key.name,
  scopes: [...key.scopes],
  active: key.active,
  fingerprint: fingerprintOf(key.keyHash),
  createdAt: key.createdAtMs,
  expiresAt: key.expiresAtMs,
  ...(key.expired && { expired: true as const }),
  ...(key.lastUsedAtMs !== null && { lastUsedAt: key.lastUsedAtMs }),
  ...(key.rotation !== null && { rotation: shownRotation(key.rotation) }),
});

const shownRotation = ({ state, previousUntilMs, otherFingerprint }: Rotation) => ({
  state,
  ...(previousUntilMs !== null && { previousUntil: previousUntilMs }),
  otherFingerprint,
});
