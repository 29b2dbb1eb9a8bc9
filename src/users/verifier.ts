// Verifies user JWTs: checks their form, and remembers the verdicts of check-token.ts on signature and claims by their
// hash, so that no token stays in memory longer than its request.

import type { UserIdentity, VerifyUserJwt } from '../calls/user-jwt.ts';
import { createLruCache, once } from '../ground/cache.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, outageIn, type Result } from '../ground/result.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { TokenCheckOptions } from './check-token.ts';
import type { Verdict } from './signature.ts';
import { issuerOutageIn } from './verification-keys.ts';

/** The compact serialization (RFC 7515 §7.1). Jose also takes padding and white space: a token would have many spellings. */
export const COMPACT_JWS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
export const TOKEN_CHARS_MAX = 16 * 1024; // tokens of large issuers stay far below

const GRANTABLE_BYTES_MAX = 4 * 1024 * 1024; // for all verdicts: one token may have thousands of scopes

export interface JwtVerifierOptions extends TokenCheckOptions {
  readonly sha256: Sha256;
  /** Returns whether a token that isn't remembered acts as a key, by a rule; by default none does. Throws a StoreOutage. */
  readonly isOfRule?: ((token: string) => Awaitable<boolean>) | undefined;
}

export function createJwtVerifier(options: JwtVerifierOptions): VerifyUserJwt {
  const { clock, sha256, isOfRule } = options;
  const verdicts = createVerdicts<UserIdentity>(clock, { bytes: GRANTABLE_BYTES_MAX, bytesOf });
  const checker = once(async () => (await import('./check-token.ts')).createTokenCheck(options));

  async function check(token: string, tokenHash: string): Promise<Result<UserIdentity, Problem>> {
    const isWorkloads = await Promise.resolve(isOfRule?.(token) ?? false).catch(outageIn);
    if (isWorkloads === true) return err({ code: 'invalid_token', reason: 'it acts as a key', sent: 'api_key' });
    const checkToken = await checker();
    const checked = await checkToken(token).catch(unavailable);
    if (!checked.ok) {
      if (isWorkloads !== false) throw isWorkloads; // a good user token is a user's whatever rules there are
      return checked;
    }
    verdicts.remember(tokenHash, checked.value);
    return ok(checked.value.value);
  }

  return (token) => {
    if (!COMPACT_JWS.test(token)) return err({ code: 'invalid_token', reason: 'malformed' });
    if (token.length > TOKEN_CHARS_MAX) return err({ code: 'invalid_token', reason: 'too long' });
    const tokenHash = sha256(token, 'base64url');
    const known = verdicts.recall(tokenHash);
    return known !== undefined ? ok(known) : check(token, tokenHash);
  };
}

const unavailable = (error: unknown) =>
  err({ code: 'auth_unavailable', reason: issuerOutageIn(error).reason } as const);

const STRING_BYTES = 40; // overhead of a short string in a list

const bytesOf = ({ value: { grantable } }: Verdict<UserIdentity>): number =>
  grantable?.reduce((bytes, { length }) => bytes + length + STRING_BYTES, 0) ?? 0;

// Remembers tokens that were good.

const VERDICT_TTL_MS = 5 * 60_000;
const VERDICTS_MAX = 10_000; // about 3 MB

interface Remembered<T> extends Verdict<T> {
  /** The end of VERDICT_TTL_MS, monotonic, so that setting the wall clock back extends nothing. */
  readonly untilMs: number;
}

interface Bounds<T> {
  readonly bytes: number;
  readonly bytesOf: (verdict: Verdict<T>) => number;
}

export type Verdicts<T> = ReturnType<typeof createVerdicts<T>>;

export function createVerdicts<T>(clock: Clock, bounds?: Bounds<T>) {
  const verdicts = createLruCache<Remembered<T>>({ entries: VERDICTS_MAX, ...bounds });
  return {
    /** Returns what was found of a token, while that counts. */
    recall(tokenHash: string): T | undefined {
      const known = verdicts.get(tokenHash);
      if (known === undefined) return undefined;
      const { by, endsAtMs, untilMs } = known;
      const counts = by.keys === by.source.current() && clock.nowMs() < endsAtMs && clock.monotonicMs() < untilMs;
      return counts ? known.value : undefined;
    },
    remember(tokenHash: string, verdict: Verdict<T>): void {
      verdicts.set(tokenHash, { ...verdict, untilMs: clock.monotonicMs() + VERDICT_TTL_MS });
    },
  };
}
