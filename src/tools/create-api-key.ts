// The tool that creates a key and returns it, once.

import * as v from 'valibot';
import { parserOf, text, wholeNumber } from '../calls/schema.ts';
import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { REQUESTS_MAX, WINDOW_S_MAX, windowSecondsOf } from '../ground/rate-limit.ts';
import { ok } from '../ground/result.ts';
import { isScope, SCOPE_PATTERN } from '../ground/text.ts';
import type { KeyCeilings } from '../keys/grants.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { deliveryOf, HOW_SHOWN, newKeyFields } from './key-delivery.ts';

const SCOPES_MAX = 100;
/** Of all scopes of a key together. Bounds what a key takes in a list: at most 4 KB. */
const SCOPES_CHARS_MAX = 2000;
const EXPIRES_IN_DAYS_MAX = 36_500; // a hundred years: also keeps expiresAt an exact integer

// keys/grants.ts enforces the ceilings; the schema tells clients.
const scope = ({ scopes }: KeyCeilings) =>
  v.pipe(
    v.string(),
    v.check(isScope, 'Expected 1 to 100 printable ASCII characters without space, quote or backslash'),
    v.metadata(scopes === null ? { pattern: SCOPE_PATTERN } : { enum: scopes }),
  );

/** Days until a key expires. */
export function daysOf({ daysMax }: KeyCeilings) {
  const expected = `Expected a number above 0 and at most ${EXPIRES_IN_DAYS_MAX}`;
  return v.pipe(
    v.number(),
    v.gtValue(0, expected),
    v.maxValue(EXPIRES_IN_DAYS_MAX, expected),
    v.metadata({ maximum: daysMax ?? EXPIRES_IN_DAYS_MAX }),
  );
}

/** Also of the operator's command. */
export const keyRequestFields = (ceilings: KeyCeilings) => ({
  name: v.pipe(
    text(1, 200),
    v.check((value) => value.trim() !== '', 'Expected a name that is not blank'),
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
  ),
  expiresInDays: v.optional(
    v.pipe(
      daysOf(ceilings),
      v.description(
        `Days until the key expires, fractions allowed. Without it ${ceilings.daysMax === null ? 'the key never expires' : `it is ${ceilings.daysMax}`}.`,
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
    v.metadata({ pattern: '^[0-9]{1,6}[smhd]$' }),
  ),
});

export const quotaFields = v.strictObject({ requests, period: v.picklist(['day', 'month']) });

const limitFields = {
  rateLimit: v.optional(
    v.pipe(
      rateLimitFields,
      v.description(
        "How many calls the key may make in a window, like 100 in `1h`; without it the server's limit counts. For a program that could run away.",
      ),
    ),
  ),
  quota: v.optional(
    v.pipe(quotaFields, v.description('How many calls the key may make in a day or month (UTC), beside its limit.')),
  ),
};

const RESOURCE_CHARS_MAX = 2000;

/** keys/grants.ts knows which there are. */
const resource = v.optional(
  v.pipe(
    v.string(),
    v.maxLength(RESOURCE_CHARS_MAX, `Expected at most ${RESOURCE_CHARS_MAX} characters`),
    v.description(
      'The URL of the one server that the key is good for: this one, or one that takes its keys. Without it the key is good for all of them.',
    ),
  ),
);

/** What a person decides about a new key, here and on the page. */
const decidedFields = (ceilings: KeyCeilings) => ({ ...keyRequestFields(ceilings), ...limitFields });

type Decided = v.InferOutput<v.StrictObjectSchema<ReturnType<typeof decidedFields>, undefined>>;

const requestOf = ({ rateLimit, ...decided }: Decided) => ({
  ...decided,
  rateLimit: rateLimit && { requests: rateLimit.requests, windowS: windowSecondsOf(rateLimit.window) ?? 0 },
});

/** For what a person decides elsewhere than in a call of the tool. */
export function keyRequestReader(ceilings: KeyCeilings) {
  const parse = parserOf(v.strictObject(decidedFields(ceilings)));
  return (fields: unknown) => {
    const decided = parse(fields);
    return decided.ok ? ok(requestOf(decided.value)) : decided;
  };
}

export const createApiKey = ({ guards, keys, ceilings, keyReveal }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'create_api_key',
    title: 'Create an API key',
    description: `Creates an API key for the signed-in user. ${HOW_SHOWN[keyReveal]} Prefer few scopes and an expiry.`,
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    widget: 'ui://widget/api-key-created.html',
    input: v.strictObject({ ...decidedFields(ceilings), resource }),
    output: v.strictObject({
      ...newKeyFields,
      rateLimit: v.optional(rateLimitFields),
      quota: v.optional(quotaFields),
    }),
    async run({ resource, ...decided }, call) {
      const delivery = deliveryOf(keyReveal, call);
      if (!delivery.ok) return delivery;
      const created = await keys.create(actorOf(call), { ...requestOf(decided), resource });
      if (!created.ok) return created;
      const { rateLimit, quota } = decided;
      return ok({ ...delivery.value(created.value), ...(rateLimit && { rateLimit }), ...(quota && { quota }) });
    },
  });
