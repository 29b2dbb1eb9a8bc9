// A key as lists show it: never the key itself.

import * as v from 'valibot';
import { epochMs } from '../calls/schema.ts';
import { writtenLimit } from '../ground/rate-limit.ts';
import type { OwnKey } from '../keys/listing.ts';
import { fingerprintOf, type Rotation } from '../keys/record.ts';
import { quotaFields, rateLimitFields } from './create-api-key.ts';

const count = v.pipe(v.number(), v.integer());

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
  resource: v.pipe(v.nullable(v.string()), v.description('The one server that the key is good for, or null: all.')),
  rateLimit: v.optional(v.pipe(rateLimitFields, v.description('Only of a key that has its own.'))),
  quota: v.optional(v.pipe(quotaFields, v.description('The one in force, if any: its own, or that of the server.'))),
  uses: v.optional(
    v.pipe(
      v.strictObject({ today: count, last30Days: v.array(count) }),
      v.description(
        'Calls that its limit and quota admitted, by day (UTC): today first, at most 30 numbers, without the zeros at the end. Only of a key used in 30 days.',
      ),
    ),
  ),
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
  resource: key.resource,
  ...(key.rateLimit !== null && { rateLimit: writtenLimit(key.rateLimit) }),
  ...(key.quota !== null && { quota: key.quota }),
  ...(key.uses !== null && { uses: { today: key.uses.today, last30Days: [...key.uses.last30Days] } }),
  ...(key.rotation !== null && { rotation: shownRotation(key.rotation) }),
});

const shownRotation = ({ state, previousUntilMs, otherFingerprint }: Rotation) => ({
  state,
  ...(previousUntilMs !== null && { previousUntil: previousUntilMs }),
  otherFingerprint,
});
