// What tools are made with: the guards, ready to use, and the key domain.

import { apiKeyGuard, type KeyAuth, type VerifyKey } from '../../calls/api-key.ts';
import type { CheckBlock } from '../../calls/blocks.ts';
import type { Call } from '../../calls/call.ts';
import { type Guard, sequence } from '../../calls/guard.ts';
import { type KeyLimitOptions, keyLimitGuard, type Limited, rateLimitGuard } from '../../calls/rate-limit.ts';
import { scopesGuard } from '../../calls/scopes.ts';
import { type Settings, settingsIn, type ToolEnv } from '../../calls/settings.ts';
import {
  adminGuard,
  type KeysManagedAt,
  type UserAuth,
  type UserIdentity,
  userJwtGuard,
  type VerifyUserJwt,
} from '../../calls/user-jwt.ts';
import { parseDuration } from '../../ground/duration.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { KeyCeilings } from '../../keys/grants.ts';
import type { Keys } from '../../keys/index.ts';
import type { KeyIdentity } from '../../keys/verify.ts';
import type { Log, LogFields } from '../../watch/log.ts';

export interface ToolDeps {
  readonly guards: {
    /** A signed-in person: adds `auth`, with the owner of the keys, the person, and what the person may grant. */
    readonly userJwt: Guard<Call, UserAuth>;
    /** Only admins (ADMIN_CLAIM); comes after `userJwt`. */
    readonly admin: ReturnType<typeof adminGuard>;
    /** A program with an API key, within its rate limit and quota: adds `auth` with the key's identity and scopes. */
    readonly apiKey: Guard<Call, KeyAuth>;
    /** Every scope named must be held; comes after `apiKey`. */
    readonly scopes: ReturnType<typeof scopesGuard>;
    /** A tool's own limit: a number of requests per bucket and window (`30s`, `5m`, `1h`, `1d`). */
    readonly rateLimit: <In extends Call>(limit: ToolLimit<In>) => Guard<In, Limited>;
  };
  readonly keys: Keys;
  /** The environment variables that a tool reads, each beginning with `TOOL_`, as a schema. */
  readonly settings: Settings;
  /** What any key may have, for schemas. */
  readonly ceilings: KeyCeilings;
  /** Where a new key is shown over MCP: in the result, or in the tool's widget alone. */
  readonly keyReveal: 'result' | 'widget';
}

export interface ToolLimit<In> {
  /** A whole number, 1 or more. */
  readonly requests: number;
  readonly window: string;
  /** Picks the bucket; calls without one share the bucket `unknown`. */
  readonly key: (call: In) => string | undefined;
}

export interface ToolDepsOptions extends Pick<ToolDeps, 'keys' | 'ceilings' | 'keyReveal'> {
  readonly verifyKey: VerifyKey;
  readonly verifyUserJwt: VerifyUserJwt;
  readonly checkBlock: CheckBlock;
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  /** Of each person, for the tools that take a user token. */
  readonly userRateLimit: { readonly requests: number; readonly windowMs: number };
  readonly usage: Pick<KeyLimitOptions<unknown>, 'admit'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly env: ToolEnv;
  /** For agents of clients that get keys in place of user tokens. */
  readonly keysManagedAt?: KeysManagedAt | undefined;
  /** Wraps each guard, to count what it refuses. */
  readonly observeGuard?: (<In, Add extends object>(guard: Guard<In, Add>) => Guard<In, Add>) | undefined;
}

const identity = <G>(guard: G): G => guard;

/** `auth`: what the guard for keys or users has added, if there is one. */
type GuardedCall = Call & { readonly auth?: Partial<KeyIdentity & UserIdentity> };

function whoseIds({ requestId, traceId, auth = {} }: GuardedCall): LogFields {
  const { keyId, subject: userId, actor } = auth;
  return { requestId, traceId, keyId, userId, ...(actor !== userId && { actor }) };
}

export function createToolDeps(options: ToolDepsOptions): ToolDeps {
  const {
    verifyKey,
    verifyUserJwt,
    checkBlock,
    keys,
    ceilings,
    keyReveal,
    rateLimit,
    userRateLimit,
    usage,
    clock,
    log,
    env,
    keysManagedAt,
    observeGuard = identity,
  } = options;
  const scopes = scopesGuard(log);

  const logRefused = (call: GuardedCall, bucket: string, fields?: LogFields): void =>
    log.warnThrottled('Rate limit exceeded', bucket, { ...whoseIds(call), ...fields });

  // One limiter for all tools: the limit is per key, not per key and tool.
  const perKey = keyLimitGuard<Call & KeyAuth>({
    admit: usage.admit,
    rateLimit,
    onRefused(call, { code }) {
      const { keyId } = call.auth;
      if (code === 'quota_exceeded') log.warnThrottled('Quota exceeded', `quota ${keyId}`, whoseIds(call));
      else logRefused(call, `key ${keyId}`);
    },
  });
  const perPerson = rateLimitGuard<Call & UserAuth>({
    ...userRateLimit,
    name: 'user',
    clock,
    key: ({ auth }) => auth.actor,
    onRefused: (call, actor) => logRefused(call, `person ${actor}`),
  });
  return {
    guards: {
      userJwt: observeGuard(
        sequence<Call, UserAuth, object>(userJwtGuard(verifyUserJwt, checkBlock, log, keysManagedAt), perPerson),
      ),
      admin: observeGuard(adminGuard(log)),
      apiKey: observeGuard(sequence<Call, KeyAuth, object>(apiKeyGuard(verifyKey, log), perKey)),
      scopes: (...required) => observeGuard(scopes(...required)),
      rateLimit({ requests, window, key }) {
        const windowMs = parseDuration(window);
        if (!Number.isSafeInteger(requests) || requests < 1) {
          throw new Error(`rate limit: expected a whole number of requests, 1 or more, got ${requests}`);
        }
        if (windowMs === null) throw new Error(`rate limit: expected a window like 30s, 5m, 1h or 1d, got "${window}"`);
        if (typeof key !== 'function') {
          throw new Error(
            `rate limit: expected key to be a function that names the bucket of a call, got ${typeof key}`,
          );
        }
        const limit = rateLimitGuard({
          requests,
          windowMs,
          key,
          clock,
          onRefused: (call, bucket) => logRefused(call, `${call.tool} ${bucket}`, { tool: call.tool }),
        });
        return observeGuard(limit);
      },
    },
    keys,
    settings: settingsIn(env),
    ceilings,
    keyReveal,
  };
}
