// The fields of an owner's settings, as tools and commands set and show them.

import * as v from 'valibot';
import { count } from '../../calls/schema.ts';
import {
  OWNER_KEYS_MAX,
  readLimit,
  SHARED_WINDOW_S_MIN,
  windowSecondsOf,
  writtenLimit,
} from '../../ground/rate-limit.ts';
import type { ShownOwner } from '../../keys/plans.ts';
import {
  metadataInput,
  quotaFields,
  quotaInput,
  rateLimitFields,
  rateLimitInput,
  usesFields,
  writtenUses,
} from '../../tools/key-fields.ts';
import type { OwnerUpdate } from './owners.ts';

const ownerLimit = v.pipe(
  rateLimitInput(),
  v.check(
    ({ window }) => (windowSecondsOf(window) ?? 0) >= SHARED_WINDOW_S_MIN,
    `Expected a window of ${SHARED_WINDOW_S_MIN}s or more`,
  ),
);

/** What an admin may set; null resets to the server's default. */
export const ownerUpdateFields = {
  rateLimit: v.optional(v.pipe(v.nullable(ownerLimit), v.description("Of all keys together; null: the server's."))),
  quota: v.optional(v.pipe(v.nullable(quotaInput()), v.description("Of all keys together; null: the server's."))),
  keysMax: v.optional(
    v.pipe(
      v.nullable(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(OWNER_KEYS_MAX))),
      v.description("How many keys there may be, in any state; null: the server's number. None is ended."),
    ),
  ),
  metadata: v.optional(
    metadataInput('Data of your own, which every key of the owner can read, by names like plan; replaces all of it.'),
  ),
  blocked: v.optional(
    v.pipe(
      v.nullable(v.boolean()),
      v.description('True: all keys and user tokens of the owner are refused; null: false.'),
    ),
  ),
};

export const shownOwnerFields = {
  owner: v.string(),
  blocked: v.boolean(),
  rateLimit: v.nullable(rateLimitFields),
  quota: v.nullable(quotaFields),
  keysMax: count,
  metadata: v.nullable(v.record(v.string(), v.string())),
  keys: v.pipe(count, v.description('How many there are, in any state.')),
  uses: v.pipe(usesFields, v.description('The sum over the keys that are there, by day (UTC), today first.')),
  quotaShare: v.pipe(v.nullable(v.number()), v.description('How much of the quota is used, 0 to 1.')),
};

type GivenUpdate = v.InferOutput<v.StrictObjectSchema<typeof ownerUpdateFields, undefined>>;

export const ownerUpdateOf = ({ rateLimit, blocked, ...update }: GivenUpdate): OwnerUpdate => ({
  ...update,
  blocked: blocked === null ? false : blocked,
  rateLimit: rateLimit && readLimit(rateLimit),
});

export const writtenOwner = ({ owner, blocked, rateLimit, quota, keysMax, metadata, keys, uses }: ShownOwner) => ({
  owner,
  blocked,
  rateLimit: rateLimit && writtenLimit(rateLimit),
  quota: quota && { requests: quota.requests, period: quota.period },
  keysMax,
  metadata: metadata && { ...metadata },
  keys,
  uses: writtenUses(uses),
  quotaShare: quota && (quota.requests - quota.remaining) / quota.requests,
});
