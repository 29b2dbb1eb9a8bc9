// Who sends a request, by its credentials: each is looked at once, whatever is asked for. Denies nothing, and is no use
// of a key.

import type { Problem } from '../ground/problem.ts';
import { type Awaitable, err, isPromise, outageIn, type Result } from '../ground/result.ts';
import { isForeignShaped, isKeyShaped } from '../keys/record.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import type { Log } from '../watch/log.ts';
import { carriesCredential, type RequestContext } from '../web/context.ts';
import { logRefused, presentedKey, refusedKeyIn, type VerifyKey } from './api-key.ts';
import { type CredentialedCall, callerOf } from './call.ts';
import type { UserIdentity, VerifyUserJwt } from './user-jwt.ts';

export interface Identity {
  /** The person whom the bearer token names. Null: there is no token, or it is a key. */
  readonly user: Result<UserIdentity, Problem> | null;
  /** The identity of the presented key. Null: there is no key, or it is that token. */
  readonly key: Result<KeyIdentity, Problem> | null;
}

export type Identify = (call: CredentialedCall) => Awaitable<Identity>;

export function createIdentify(verifyUserJwt: VerifyUserJwt, lookAtKey: VerifyKey): Identify {
  /** Tries a bearer token of another form as a key; else what is wrong with it is said as of a user token. */
  async function tryAsKey(bearer: string, call: CredentialedCall): Promise<Identity> {
    const key = await Promise.resolve(lookAtKey(bearer, call)).catch(unknown);
    if (key.ok || !isNoKey(key.error)) return { user: null, key };
    return { user: await verifyUserJwt(bearer), key: null };
  }

  return (call) => {
    const { bearer, xApiKey } = call.credentials;
    if (bearer !== null && xApiKey === null && isForeignShaped(bearer)) return tryAsKey(bearer, call);
    const presented = presentedKey(call.credentials);
    const token = bearer === null || isKeyShaped(bearer) ? null : bearer;
    const user = token === null ? null : verifyUserJwt(token);
    const looked = presented === null || presented === token ? null : lookAtKey(presented, call);
    const key = isPromise(looked) ? looked.catch(unknown) : looked;
    return isPromise(user) || isPromise(key) ? awaitBoth(user, key) : { user, key };
  };
}

const isNoKey = (problem: Problem): boolean =>
  problem.code === 'invalid_api_key' && (problem.reason === 'malformed' || problem.reason === 'unknown');

/** Returns an outage as a problem: nothing is known of the key. Whether that matters depends on what is asked for. */
const unknown = (error: unknown): Result<never, Problem> =>
  err({ code: 'store_unavailable', reason: outageIn(error).reason });

async function awaitBoth(user: Awaitable<Identity['user']>, key: Awaitable<Identity['key']>): Promise<Identity> {
  const [foundUser, foundKey] = await Promise.all([user, key]);
  return { user: foundUser, key: foundKey };
}

/** Returns whether a problem says that a credential is wrong. Others say nothing about it. */
export const isWrong = ({ code }: Problem): boolean => code === 'invalid_token' || code === 'invalid_api_key';

/**
 * Who sent an HTTP request, found when first asked for. A class: every request on /mcp makes one, and most ask it
 * nothing.
 */
export class Sender {
  #found: { readonly metaApiKey: string | null; readonly identity: Awaitable<Identity> } | undefined;

  constructor(
    readonly context: RequestContext,
    readonly identifyCall: Identify,
    readonly log: Log,
  ) {}

  /**
   * Resolves with who sent the request. `metaApiKey` is the key in the metadata of a message, which counts if the
   * headers have none.
   */
  identify(metaApiKey: string | null): Awaitable<Identity> {
    const key = carriesCredential(this.context.credentials) ? null : metaApiKey;
    if (this.#found?.metaApiKey !== key) {
      this.#found = {
        metaApiKey: key,
        identity: this.identifyCall(callerOf(this.context, key)),
      };
    }
    return this.#found.identity;
  }

  /**
   * Resolves with the problem of a bad bearer token, because clients sign in again only when HTTP says so. Null if it
   * is good, that can't be decided now, there is none, or `X-API-Key` beside it is the credential.
   */
  async badBearer(): Promise<Problem | null> {
    const { context, log } = this;
    const { bearer, xApiKey } = context.credentials;
    if (bearer === null || xApiKey !== null) return null;
    const { user, key } = await this.identify(null);
    const verdict = user ?? key;
    if (verdict === null || verdict.ok || !isWrong(verdict.error)) return null;
    const { error: problem } = verdict;
    const caller = callerOf(context);
    const { requestId, traceId } = caller;
    if (problem.code === 'invalid_token')
      log.warn('Invalid user token', { requestId, traceId, reason: problem.reason });
    else logRefused(log, problem, caller);
    context.call ??= { refused: refusedKeyIn(problem) };
    return problem;
  }
}
