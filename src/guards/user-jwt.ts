// The user JWT guard: takes only `Authorization: Bearer`, has the token verified, and adds who the user is.

import type { Credentials } from '../http/credentials.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { presentedKey } from './api-key.ts';
import { keyInstead } from './credential-shape.ts';
import type { Guard } from './guard.ts';

export interface UserCall {
  readonly requestId: string;
  readonly credentials: Credentials;
}

export interface UserAuth {
  readonly auth: { readonly subject: string };
}

export type VerifyUserJwt = (token: string) => Awaitable<Result<{ readonly subject: string }, Problem>>;

export function userJwtGuard(verify: VerifyUserJwt, log: Log): Guard<UserCall, UserAuth> {
  const decide: Guard<UserCall, UserAuth> = ({ requestId, credentials }) => {
    const { bearer } = credentials;
    if (bearer === null) {
      const wrongKind = keyInstead(presentedKey(credentials));
      log.warn('No user token provided', { requestId, ...wrongKind });
      return err({ code: 'missing_token', ...wrongKind });
    }
    return chain(verify(bearer), (verified): Result<UserAuth, Problem> => {
      if (verified.ok) return ok({ auth: verified.value });
      if (verified.error.code !== 'invalid_token') return verified;
      const { reason } = verified.error;
      const wrongKind = keyInstead(bearer);
      log.warn('Invalid user token', { requestId, reason, ...wrongKind });
      return err({ ...verified.error, ...wrongKind });
    });
  };
  return Object.assign(decide, { credential: 'user_jwt' as const });
}
