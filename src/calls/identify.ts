// Who sends a request, by its credentials: each is looked at once, whatever is asked for. Denies nothing, and is no use
// of a key.

import { outageIn } from '../ground/outage.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, err, isPromise, type Result } from '../ground/result.ts';
import { isKeyShaped } from '../keys/record.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import { type CredentialedCall, presentedKey, type VerifyKey } from './api-key.ts';
import type { UserIdentity, VerifyUserJwt } from './user-jwt.ts';

export interface Identity {
  /** By the bearer token; null: there is none, or it is a key. */
  readonly user: Result<UserIdentity, Problem> | null;
  /** By the presented key; null: there is none, or it is that token. */
  readonly key: Result<KeyIdentity, Problem> | null;
}

export type Identify = (call: CredentialedCall) => Awaitable<Identity>;

export function createIdentify(verifyUserJwt: VerifyUserJwt, lookAtKey: VerifyKey): Identify {
  return (call) => {
    const { bearer } = call.credentials;
    const presented = presentedKey(call.credentials);
    const token = bearer === null || isKeyShaped(bearer) ? null : bearer;
    const user = token === null ? null : verifyUserJwt(token);
    const looked = presented === null || presented === token ? null : lookAtKey(presented, call);
    const key = isPromise(looked) ? looked.catch(unknown) : looked;
    return isPromise(user) || isPromise(key) ? both(user, key) : { user, key };
  };
}

/** During an outage nothing is known of a key; whether that matters depends on what is asked for. */
const unknown = (error: unknown): Result<never, Problem> =>
  err({ code: 'store_unavailable', reason: outageIn(error).reason });

async function both(user: Awaitable<Identity['user']>, key: Awaitable<Identity['key']>): Promise<Identity> {
  const [foundUser, foundKey] = await Promise.all([user, key]);
  return { user: foundUser, key: foundKey };
}

/** True for a problem that says that a credential is wrong; others say nothing about it. */
export const isWrong = ({ code }: Problem): boolean => code === 'invalid_token' || code === 'invalid_api_key';
