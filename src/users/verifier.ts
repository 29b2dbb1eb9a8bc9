// Verifies user JWTs: checks their form, and caches the verdicts of check-token.ts on signature and claims.

import type { UserIdentity, VerifyUserJwt } from '../calls/user-jwt.ts';
import { createLruCache, once } from '../ground/cache.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, outageIn, type Result } from '../ground/result.ts';
import type { Sha256 } from '../ground/runtime.ts';
import type { CheckedToken, TokenCheckOptions } from './check-token.ts';
import { issuerOutageIn } from './verification-keys.ts';

/** The compact serialization (RFC 7515 §7.1). Jose also takes padding and white space: a token would have many spellings. */
const COMPACT_JWS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const TOKEN_CHARS_MAX = 16 * 1024; // tokens of large issuers stay far below

const VERDICT_TTL_MS = 5 * 60_000;
const VERDICTS_MAX = 10_000; // about 3 MB
const GRANTABLE_BYTES_MAX = 4 * 1024 * 1024; // for all verdicts: one token may have thousands of scopes

interface Verdict extends CheckedToken {
  /** The end of VERDICT_TTL_MS, monotonic, so that setting the wall clock back extends nothing. */
  readonly untilMs: number;
}

export interface JwtVerifierOptions extends TokenCheckOptions {
  readonly sha256: Sha256;
  /** Returns whether a token that isn't remembered acts as a key, by a rule; by default none does. Throws a StoreOutage. */
  readonly isOfRule?: ((token: string) => Awaitable<boolean>) | undefined;
}

export function createJwtVerifier(options: JwtVerifierOptions): VerifyUserJwt {
  const { keys: verificationKeys, clock, sha256, isOfRule } = options;
  // Keyed by hash, so that no token stays in memory longer than its request.
  const verdicts = createLruCache<Verdict>({
    entries: VERDICTS_MAX,
    bytes: GRANTABLE_BYTES_MAX,
    bytesOf: ({ user }) => grantableBytes(user),
  });
  const checker = once(async () => (await import('./check-token.ts')).createTokenCheck(options));

  function known(tokenHash: string): Verdict | undefined {
    const cached = verdicts.get(tokenHash);
    if (cached === undefined) return undefined;
    const isValid =
      cached.keys === verificationKeys.current() &&
      clock.nowMs() < cached.expiresAtMs &&
      clock.monotonicMs() < cached.untilMs;
    if (isValid) return cached;
    verdicts.delete(tokenHash);
    return undefined;
  }

  async function check(token: string, tokenHash: string): Promise<Result<UserIdentity, Problem>> {
    const isWorkloads = await Promise.resolve(isOfRule?.(token) ?? false).catch(outageIn);
    if (isWorkloads === true) return err({ code: 'invalid_token', reason: 'it acts as a key', sent: 'api_key' });
    const checkToken = await checker();
    const untilMs = clock.monotonicMs() + VERDICT_TTL_MS;
    const checked = await checkToken(token).catch(unavailable);
    if (!checked.ok) {
      if (isWorkloads !== false) throw isWorkloads; // a good user token is a user's whatever rules there are
      return checked;
    }
    verdicts.set(tokenHash, { ...checked.value, untilMs });
    return ok(checked.value.user);
  }

  return (token) => {
    if (!COMPACT_JWS.test(token)) return err({ code: 'invalid_token', reason: 'malformed' });
    if (token.length > TOKEN_CHARS_MAX) return err({ code: 'invalid_token', reason: 'too long' });
    const tokenHash = sha256(token, 'base64url');
    const cached = known(tokenHash);
    return cached !== undefined ? ok(cached.user) : check(token, tokenHash);
  };
}

const unavailable = (error: unknown) =>
  err({ code: 'auth_unavailable', reason: issuerOutageIn(error).reason } as const);

const STRING_BYTES = 40; // overhead of a short string in a list

const grantableBytes = ({ grantable }: UserIdentity): number =>
  grantable?.reduce((bytes, { length }) => bytes + length + STRING_BYTES, 0) ?? 0;
