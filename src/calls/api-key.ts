// API keys of calls. The guard finds the presented key, has it verified, and adds its identity. The recheck looks once more
// before a success leaves.

import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, err, ok, outageIn, type Result, StoreOutage } from '../ground/result.ts';
import type { Caller, RequestIds } from '../keys/actor.ts';
import type { KeyDomain } from '../keys/index.ts';
import { isKeyShaped } from '../keys/record.ts';
import type { KeyIdentity, Verified } from '../keys/verify.ts';
import type { Log } from '../watch/log.ts';
import { outageProblem } from '../watch/outage.ts';
import type { Credentials } from '../web/context.ts';
import type { Call } from './call.ts';
import type { Guard } from './guard.ts';

export interface KeyAuth {
  readonly auth: KeyIdentity;
}

export type VerifyKey = (token: string, caller: Caller) => Awaitable<Verified>;

/** The first place that holds a key decides, even when its key is wrong and a later one is right. */
export const presentedKey = ({ xApiKey, bearer, metaApiKey }: Credentials): string | null =>
  xApiKey ?? bearer ?? metaApiKey;

export function apiKeyGuard(verify: VerifyKey, log: Log): Guard<Call, KeyAuth> {
  function logged(verified: Verified, call: Call): Result<KeyAuth, Problem> {
    const { requestId, traceId, credentials } = call;
    if (verified.ok) {
      const auth = verified.value;
      call.verifiedAtMs = verified.verifiedAtMs;
      const { keyId, subject: userId } = auth;
      log.info('API key authentication successful', { requestId, traceId, keyId, userId });
      return ok({ auth });
    }
    const problem = withKindSent(verified.error, presentedKey(credentials) ?? '');
    logRefused(log, problem, call);
    return err(problem);
  }
  const decide: Guard<Call, KeyAuth> = (call) => {
    const key = presentedKey(call.credentials);
    if (key === null) {
      const { lacksScheme } = call.credentials;
      log.warn('No API key provided', { requestId: call.requestId, traceId: call.traceId, lacksScheme });
      return err({ code: 'missing_api_key', ...(lacksScheme && { lacksScheme }) });
    }
    return chain(verify(key, call), logged, call);
  };
  return Object.assign(decide, { credential: 'api_key' as const });
}

/** A JWT in compact form (RFC 7519 §3.1): its header is a JSON object, so its base64url begins with `eyJ`. */
const JWT_SHAPE = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/;

/** Adds that a user token was presented as a key, judged by its shape alone. */
const withKindSent = (problem: Problem, presented: string): Problem =>
  problem.code === 'invalid_api_key' && JWT_SHAPE.test(presented) ? { ...problem, sent: 'user_token' } : problem;

/** Evidence for a refused user token: whether it is a key, judged by its shape alone. */
export const keyInstead = (presented: string | null): { readonly sent?: 'api_key' } =>
  presented !== null && isKeyShaped(presented) ? { sent: 'api_key' } : {};

export function logRefused(log: Log, error: Problem, { requestId, traceId }: RequestIds): void {
  if (error.code === 'invalid_api_key') {
    const { reason, keyId, userId, fingerprint, sent } = error; // the ids are there only for a key on record
    log.warn('Invalid or expired API key', { requestId, traceId, reason, keyId, userId, fingerprint, sent });
  }
}

/**
 * The proof of a key may have become older than the revocation bound: the tool took long, the process was stopped, the
 * machine slept. Then the key is verified again, at no charge.
 */
export interface Recheck {
  /** For successes that leave together: the problems of those that may not. */
  (calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>>;
  /** False once the proof of its key is too old. */
  isFresh(call: Call): boolean;
}

/** Then the store is slower than the bound, and is not asked again. */
const TRIES = 2;

const TOO_SLOW = new StoreOutage('the key store answers slower than the revocation bound');

export function createRecheck({ feed, verifier }: Pick<KeyDomain, 'feed' | 'verifier'>, log: Log): Recheck {
  const isFresh = ({ verifiedAtMs }: Call): boolean => feed.isFresh(verifiedAtMs);

  /** At its end all calls not refused are fresh at the same moment. */
  async function recheck(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>> {
    const refused = new Map<Call, Problem>();
    const away = (call: Call, outage: StoreOutage) => void refused.set(call, outageProblem(outage, log, call));
    const stale = () => calls.filter((call) => !refused.has(call) && !isFresh(call));
    for (let tries = 0; tries < TRIES && stale().length > 0; tries += 1) {
      const verifying = stale().map(async (call) => {
        try {
          const verified = await verifier.confirm(presentedKey(call.credentials) ?? '', call);
          if (verified.ok) call.verifiedAtMs = verified.verifiedAtMs;
          else {
            refused.set(call, verified.error);
            logRefused(log, verified.error, call);
          }
        } catch (error) {
          away(call, outageIn(error)); // the others of a batch may be good
        }
      });
      await Promise.all(verifying);
    }
    for (const call of stale()) away(call, TOO_SLOW);
    return refused;
  }

  return Object.assign(recheck, { isFresh });
}
