// The fields of keys in tools: of a request for one, and of one as lists show it.

import * as v from 'valibot';
import { count, epochMs, jsonSchemaOf, text, wholeNumber } from '../calls/schema.ts';
import { METADATA_NAMES_MAX, METADATA_VALUE_MAX, METADATA_WANTED, metadataFrom } from '../ground/metadata.ts';
import {
  parseLimit,
  parseQuota,
  REQUESTS_MAX,
  WINDOW_S_MAX,
  windowSecondsOf,
  writtenLimit,
} from '../ground/rate-limit.ts';
import { A_SCOPE, hasLength, isScope, isVisible, SCOPE_PATTERN, scopeSet } from '../ground/text.ts';
import type { Caller } from '../keys/actor.ts';
import { shownServer, THIS_SERVER } from '../keys/audience.ts';
import { DAYS_MAX, expectedLife, type KeyCeilings, SCOPES_CHARS_MAX, SCOPES_MAX } from '../keys/grants.ts';
import type { OwnKey } from '../keys/listing.ts';
import { fingerprintOf, type Rotation } from '../keys/record.ts';
import type { ListedChild } from '../keys/store.ts';

// keys/grants.ts enforces the ceilings; the schema only tells clients.
const scope = ({ scopes }: KeyCeilings) =>
  v.pipe(
    v.string(),
    v.check(isScope, `Expected ${A_SCOPE}`),
    v.metadata(scopes === null ? { pattern: SCOPE_PATTERN } : { enum: scopes }),
  );

/** Describes the days until a key expires. */
export function daysOf({ daysMax }: KeyCeilings) {
  return v.pipe(
    v.number(),
    v.gtValue(0, expectedLife(DAYS_MAX)),
    v.maxValue(DAYS_MAX, expectedLife(DAYS_MAX)),
    v.metadata({ maximum: daysMax ?? DAYS_MAX }),
  );
}

/** Returns the fields of a request for a key, which the operator's command has, too. */
export const keyRequestFields = (ceilings: KeyCeilings) => ({
  name: v.pipe(
    text(1, 200),
    v.check(isVisible, 'Expected a name that is not blank'),
    v.description('What the key is for, to recognize it by: "billing export", "CI".'),
  ),
  scopes: v.pipe(
    v.array(scope(ceilings)),
    v.maxLength(SCOPES_MAX, `Expected at most ${SCOPES_MAX} scopes`),
    v.check(
      (scopes) => scopes.reduce((chars, { length }) => chars + length, 0) <= SCOPES_CHARS_MAX,
      `Expected scopes of at most ${SCOPES_CHARS_MAX} characters together`,
    ),
    v.description(
      `What the key may do, for example ["${ceilings.scopes?.[0] ?? 'read'}"]. Give as few as possible; may be empty. At most ${SCOPES_CHARS_MAX} characters together.`,
    ),
    v.transform((scopes) => scopeSet(scopes)),
  ),
  expiresInDays: v.optional(
    v.pipe(
      daysOf(ceilings),
      v.description(
        `Days until the key expires, more than 0, fractions allowed. Without it ${ceilings.daysMax === null ? 'the key never expires' : `it is ${ceilings.daysMax}`}.`,
      ),
    ),
  ),
});

const requests = wholeNumber(1, REQUESTS_MAX);

export const rateLimitFields = v.strictObject({
  requests,
  window: v.pipe(
    v.string(),
    v.check(
      (window) => windowSecondsOf(window) !== null,
      `Expected a time like 30s, 5m, 1h or 1d, of at most ${WINDOW_S_MAX / 86_400} days`,
    ),
    v.metadata({ pattern: '^[0-9]{1,8}[smhd]$' }),
  ),
});

export const quotaFields = v.strictObject({ requests, period: v.picklist(['day', 'month']) });

/** Creates an input that may also be text, as commands write it. */
const orText = <S extends v.GenericSchema>(
  shape: S,
  { read, like, pattern }: { read(text: string): unknown; readonly like: string; readonly pattern: string },
  description?: string,
) =>
  v.pipe(
    v.unknown(),
    v.check((given) => typeof given !== 'string' || read(given) !== null, `Expected ${like}`),
    v.metadata({
      anyOf: [jsonSchemaOf('key fields', shape), { type: 'string', pattern }],
      ...(description !== undefined && { description }), // one after the transform would be lost
    }),
    v.transform((given) => (typeof given === 'string' ? read(given) : given)),
    shape,
  );

const RATE_LIMIT_TEXT = {
  read(text: string) {
    const limit = parseLimit(text);
    return limit && writtenLimit(limit);
  },
  like: 'requests and a window, or text like 100/1m',
  pattern: '^[0-9]{1,10}/[0-9]{1,8}[smhd]$',
};
export const rateLimitInput = (description?: string) => orText(rateLimitFields, RATE_LIMIT_TEXT, description);

const QUOTA_TEXT = {
  read: parseQuota,
  like: 'requests and a period, or text like 5000/day',
  pattern: '^[0-9]{1,10}/(day|month)$',
};
export const quotaInput = (description?: string) => orText(quotaFields, QUOTA_TEXT, description);

/** A quota in force, as lists show it. */
export const shownQuotaFields = v.strictObject({
  ...quotaFields.entries,
  remaining: v.pipe(v.number(), v.integer(), v.description('What is left in this period.')),
});

const METADATA_SCHEMA = {
  type: 'object',
  maxProperties: METADATA_NAMES_MAX,
  additionalProperties: { type: 'string', maxLength: METADATA_VALUE_MAX },
};

/**
 * Describes metadata as an admin gives it. Not v.record, which would accept an array. What clients see comes before the
 * transform, where the schema of an input ends.
 */
export const metadataInput = (description: string) =>
  v.pipe(
    v.unknown(),
    v.check((metadata) => metadataFrom(metadata) !== undefined, `Expected ${METADATA_WANTED}`),
    v.metadata({ anyOf: [METADATA_SCHEMA, { type: 'null' }] }),
    v.description(description),
    v.transform((metadata) => metadataFrom(metadata) ?? null),
  );

/** Uses of a key, or of all keys together. */
export const usesFields = v.strictObject({ today: count, last30Days: v.array(count) });

export const writtenUses = ({ today, last30Days }: NonNullable<OwnKey['uses']>) => ({
  today,
  last30Days: [...last30Days],
});

/** The fields of a key in lists, which never show the key itself. */
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
  quota: v.optional(
    v.pipe(shownQuotaFields, v.description('The one in force, if any: its own, or that of the server.')),
  ),
  uses: v.optional(
    v.pipe(
      usesFields,
      v.description(
        'Calls that its limit and quota admitted, by day (UTC): today first, at most 30 numbers, without the zeros at the end. Only of a key used in 30 days.',
      ),
    ),
  ),
  children: v.optional(
    v.pipe(count, v.description('How many keys that it has made for its agents are good; list them by `childrenOf`.')),
  ),
  rules: v.optional(v.pipe(count, v.description('How many rules let tokens of workloads act as it.'))),
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

/** Returns the server that the key is for, under the name that the client uses. */
export const resourceOf = (
  { resource }: { resource: string | null },
  { publicUrl = THIS_SERVER }: Caller,
): string | null => (resource === null ? null : shownServer(resource, publicUrl));

export const listedKey = (key: OwnKey, caller: Caller) => ({
  id: key.id,
  name: key.name,
  scopes: [...key.scopes],
  active: key.active,
  fingerprint: fingerprintOf(key.keyHash),
  createdAt: key.createdAtMs,
  expiresAt: key.expiresAtMs,
  ...(key.expired && { expired: true as const }),
  ...(key.lastUsedAtMs !== null && { lastUsedAt: key.lastUsedAtMs }),
  resource: resourceOf(key, caller),
  ...(key.rateLimit !== null && { rateLimit: writtenLimit(key.rateLimit) }),
  ...(key.quota !== null && { quota: key.quota }),
  ...(key.uses !== null && { uses: writtenUses(key.uses) }),
  ...(key.children > 0 && { children: key.children }),
  ...(key.rules > 0 && { rules: key.rules }),
  ...(key.rotation !== null && { rotation: shownRotation(key.rotation) }),
});

/** Returns a child (a key that another key made) as lists show it. */
export const listedChild = (child: ListedChild, caller: Caller) => ({
  id: child.id,
  name: child.name,
  scopes: [...child.scopes],
  active: true,
  createdAt: child.createdAtMs,
  expiresAt: child.expiresAtMs,
  resource: resourceOf(child, caller),
});

const shownRotation = ({ state, previousUntilMs, otherFingerprint }: Rotation) => ({
  state,
  ...(previousUntilMs !== null && { previousUntil: previousUntilMs }),
  otherFingerprint,
});

const KEY_ID_CHARS_MAX = 200; // any text is accepted: it then names a key that doesn't exist

export const keyIdInput = v.strictObject({
  keyId: v.pipe(
    v.string(),
    v.check((value) => hasLength(value, 0, KEY_ID_CHARS_MAX), `Expected at most ${KEY_ID_CHARS_MAX} characters`),
    v.metadata({ maxLength: KEY_ID_CHARS_MAX }),
    v.description('The id of the key, as list_api_keys gives it. Not the key itself.'),
  ),
});
