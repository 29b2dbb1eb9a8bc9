// The guard for user tokens: accepts only `Authorization: Bearer`, verifies the token, adds the user, and refuses
// blocked owners.

import type { Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, type Result } from '../ground/result.ts';
import { keysPageUrl } from '../ground/urls.ts';
import { type Actor, actorBy, type Caller } from '../keys/actor.ts';
import type { CheckBlock } from '../keys/blocked-owners.ts';
import { isJwtShaped } from '../keys/record.ts';
import type { Log } from '../watch/log.ts';
import { actsAsKey, callerIds, keyInstead, logMissing, logRefused, presentedKey } from './api-key.ts';
import type { Call, RequestCaller } from './call.ts';
import type { Guard } from './guard.ts';

export interface UserIdentity {
  /** The owner of keys: the person, or the person's team. */
  readonly subject: string;
  /** The person: the token's `sub`. */
  readonly actor: string;
  /** The scopes that the person may grant a key; null: any. */
  readonly grantable: readonly string[] | null;
  /** Whether the token has the claim of ADMIN_CLAIM. */
  readonly isAdmin: boolean;
}

export interface UserAuth {
  readonly auth: UserIdentity;
}

export type VerifyUserJwt = (token: string) => Awaitable<Result<UserIdentity, Problem>>;

export interface UserJwtOptions {
  readonly verifyUserJwt: VerifyUserJwt;
  readonly checkBlock: CheckBlock;
  readonly log: Log;
  /** Whether refusals tell agents that the tool needs a user token, and whether with the page where keys are managed. */
  readonly helpsSignIn?: 'with_page' | 'without_page' | undefined;
}

/** Creates the guard for user tokens. */
export function userJwtGuard(options: UserJwtOptions): Guard<Call, UserAuth> {
  const { verifyUserJwt: verify, checkBlock, log, helpsSignIn } = options;
  const helpFor = ({ publicUrl }: RequestCaller) => helpsSignIn && { help: helpOf(helpsSignIn, publicUrl) };

  /** Checks that the owner isn't blocked. Resolves with when the proof of that began. */
  async function unlessBlocked(auth: UserIdentity, caller: RequestCaller) {
    const checked = await checkBlock(auth.subject);
    if (!checked.ok) log.warn('User blocked', callerIds({ caller, auth }));
    return checked;
  }

  /** Returns the hint that a key was sent in place of a user token, or a workload's token that acts as one. */
  async function keyOrWorkload(presented: string | null): Promise<ReturnType<typeof keyInstead>> {
    if (presented === null || !isJwtShaped(presented)) return keyInstead(presented);
    const verified = await verify(presented);
    return !verified.ok && actsAsKey(verified.error) ? { sent: 'api_key' } : {};
  }

  const decide: Guard<Call, UserAuth> = async (call) => {
    const { caller } = call;
    const { bearer } = caller.credentials;
    if (bearer === null) {
      const wrongKind = await keyOrWorkload(presentedKey(caller.credentials));
      const noScheme = logMissing(log, 'user_jwt', caller, wrongKind);
      return err({ code: 'missing_token', ...wrongKind, ...noScheme, ...helpFor(caller) });
    }
    const verified = await verify(bearer);
    if (!verified.ok) {
      if (verified.error.code !== 'invalid_token') return verified;
      const refused = { ...verified.error, ...keyInstead(bearer) };
      logRefused(log, refused, caller);
      return err({ ...refused, ...helpFor(caller) });
    }
    const auth = verified.value;
    const admitted = await unlessBlocked(auth, caller);
    if (!admitted.ok) {
      call.response.refused = { subject: auth.subject, actor: auth.actor };
      return admitted;
    }
    call.proof.add(admitted.value, () => unlessBlocked(auth, caller)); // a token that expires meanwhile was good
    return ok({ auth });
  };
  return Object.assign(decide, { credential: 'user_jwt' as const });
}

const helpOf = (helps: 'with_page' | 'without_page', publicUrl: string): string =>
  helps === 'without_page'
    ? 'This tool needs a user token'
    : `This tool needs a user token; keys are managed at ${keysPageUrl(publicUrl)}`;

/** Returns the person whom the guard of a call has found. */
export const actorOf = ({ auth, caller }: UserAuth & { readonly caller: Caller }): Actor =>
  actorBy(caller, { userId: auth.subject, actor: auth.actor, grantable: auth.grantable });
