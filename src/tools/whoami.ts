// The tool that says whose key was presented, and what is left of its limits. It needs no scope and changes nothing, so
// people can see why another call was refused, or that a new key works.

import * as v from 'valibot';
import { count } from '../calls/schema.ts';
import { defineTool } from '../calls/tool.ts';
import type { LimitName, RateLimitState } from '../ground/rate-limit.ts';
import { ok } from '../ground/result.ts';
import { MS_PER_DAY } from '../ground/runtime.ts';
import { countedKeyId } from '../keys/verify.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { listedKeyFields } from './key-fields.ts';

const left = { remaining: count, resetSeconds: count };
const limitLeft = v.nullable(v.strictObject({ requests: count, windowSeconds: count, ...left }));
const quotaLeft = v.nullable(v.strictObject({ requests: count, period: v.picklist(['day', 'month']), ...left }));

const leftOf = ({ remaining, resetS }: RateLimitState) => ({ remaining, resetSeconds: resetS });

const limitLeftOf = (state: RateLimitState | undefined) =>
  state === undefined ? null : { requests: state.limit.requests, windowSeconds: state.limit.windowS, ...leftOf(state) };

function quotaLeftOf(state: RateLimitState | undefined) {
  if (state === undefined) return null;
  const { requests, windowS } = state.limit;
  return { requests, period: windowS * 1000 === MS_PER_DAY ? ('day' as const) : ('month' as const), ...leftOf(state) };
}

export const whoami = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'whoami',
    title: 'Show whose key this is',
    description:
      'Shows the API key that was sent: its id, name, owner, scopes, expiry, and what is left of its rate limit and quota. Use it to check that a key works, or to find out why a call was refused.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({}),
    output: v.strictObject({
      keyId: v.string(),
      name: v.string(),
      owner: v.pipe(v.string(), v.description("The user id of the key's owner.")),
      parentId: v.optional(
        v.pipe(v.string(), v.description('The key that has made this one, whose limits it shares.')),
      ),
      scopes: v.array(v.string()),
      expiresAt: listedKeyFields.expiresAt,
      rateLimit: v.pipe(
        limitLeft,
        v.description('Calls per window, how many are left after this one, and until when; null: no limit.'),
      ),
      quota: v.pipe(quotaLeft, v.description('Calls per day or month (UTC), as the limit; null: no quota.')),
      ownerRateLimit: v.pipe(limitLeft, v.description("As `rateLimit`, of all the owner's keys together.")),
      ownerQuota: v.pipe(quotaLeft, v.description("As `quota`, of all the owner's keys together.")),
      metadata: v.pipe(
        v.nullable(v.record(v.string(), v.string())),
        v.description('What the operator has set of the key and its owner, by name; null: nothing.'),
      ),
      workload: v.pipe(
        v.nullable(v.strictObject({ issuer: v.string(), subject: v.string() })),
        v.description('Whose token a rule has let in as this key; null: the key itself was sent.'),
      ),
      usesToday: v.pipe(count, v.description('Calls of this key today (UTC), with this one.')),
    }),
    run: (_input, { auth, limits }) => {
      const named = (name: LimitName) => limits.find((state) => state.name === name);
      return ok({
        keyId: auth.keyId,
        name: auth.keyName,
        owner: auth.subject,
        ...(auth.parentId !== null && { parentId: auth.parentId }),
        scopes: [...auth.scopes],
        expiresAt: auth.expiresAtMs,
        rateLimit: limitLeftOf(named('key')),
        quota: quotaLeftOf(named('quota')),
        ownerRateLimit: limitLeftOf(named('owner')),
        ownerQuota: quotaLeftOf(named('owner-quota')),
        metadata: auth.metadata && { ...auth.metadata },
        workload: auth.workload && { ...auth.workload },
        usesToday: keys.usesToday(countedKeyId(auth)),
      });
    },
  });
