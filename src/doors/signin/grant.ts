// Gives a client a code, after a person has pasted a key or decided on a new one.

import { LIMITS } from '../../ground/limits/index.ts';
import { createTokenBuckets } from '../../ground/limits/rates.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import { type Actor, type Caller, personOf } from '../../keys/actor.ts';
import type { DecidedKey, Minting } from '../../keys/minting.ts';
import type { KeyIdentity } from '../../keys/verify.ts';
import type { Log } from '../../watch/log.ts';
import { type AuthorizationRequest, locationOf } from './authorization-request.ts';
import type { CodeContent, Codes } from './codes.ts';

export interface Grants {
  /** Returns the redirect, with a code, for a person who pasted a good key. */
  pasted(
    request: AuthorizationRequest,
    key: string,
    identity: KeyIdentity,
    caller: Caller,
  ): Promise<Result<string, Problem>>;
  /** Returns the redirect, with a code, for a person who decided on a new key. */
  ordered(request: AuthorizationRequest, actor: Actor, input: DecidedKey): Promise<Result<string, Problem>>;
}

export interface GrantsOptions {
  readonly codes: Codes;
  readonly keys: Pick<Minting, 'order'>;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
}

export function createGrants({ codes, keys, clock, sha256, log }: GrantsOptions): Grants {
  const signIns = createTokenBuckets(LIMITS.signIns, clock);

  async function redirectWithCode(
    request: AuthorizationRequest,
    handsOut: CodeContent['handsOut'],
    fairnessKey: string,
  ): Promise<Result<string, Problem>> {
    const { clientId, challenge, redirectUri, server } = request;
    const client = sha256(clientId, 'base64url');
    const code = await codes.seal({ handsOut, client, challenge, redirectUri, resource: server }, fairnessKey);
    return code.ok ? ok(locationOf(request, { code: code.value })) : code;
  }

  return {
    async pasted(request, key, { keyId, subject: userId }, { requestId }) {
      const waitS = signIns.take(keyId);
      if (waitS > 0) {
        log.warnThrottled('Rate limit exceeded', `connect ${keyId}`, { requestId, keyId, userId });
        return err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
      }
      return redirectWithCode(request, { key }, keyId);
    },

    async ordered(request, actor, input) {
      const ordered = keys.order(actor, { ...input, server: request.server });
      return ordered.ok ? redirectWithCode(request, { order: ordered.value }, personOf(actor)) : ordered;
    },
  };
}
