// Identifies who sends a request by its credentials, inspecting each one once, and counts no use of a key. Returns the problem
// of a sender who must get another credential first; transports challenge for it.

import type { KeyRefusal, Problem } from '../ground/problem.ts';
import { type Awaitable, chain, isPromise, outageIn, type Result } from '../ground/result.ts';
import { isForeignShaped, isKeyShaped } from '../keys/record.ts';
import type { Verified } from '../keys/verify.ts';
import type { Log } from '../watch/log.ts';
import { carriesCredential, type RequestContext } from '../web/context.ts';
import type { SignIn } from '../web/problem-response.ts';
import { actsAsKey, logMissing, logRefused, presentedKey, refusedKeyIn, type VerifyKey } from './api-key.ts';
import { callerOf, type LoggedCall, type Principal, type RequestCaller } from './call.ts';
import type { Credential } from './guard.ts';
import type { UserIdentity, VerifyUserJwt } from './user-jwt.ts';

export interface Identity {
  /** The person named by the bearer token. Null: there is no token, or it is a key. */
  readonly user: Result<UserIdentity, Problem> | null;
  /** The identity of the presented key. Null: there is none, or it is the user token. */
  readonly key: Verified | null;
}

type UserVerdict = Result<UserIdentity, Problem>;

export type Identify = (caller: RequestCaller) => Awaitable<Identity>;

export function createIdentify(verifyUserJwt: VerifyUserJwt, inspectKey: VerifyKey): Identify {
  const inspectUser = (token: string): Awaitable<UserVerdict> => caught(verifyUserJwt(token));
  const inspect = (key: string, caller: RequestCaller) => caught(inspectKey(key, caller));

  /** Tries a bearer token of neither form as a key. If no such key is known, it counts as a user token. */
  async function tryAsKey(bearer: string, caller: RequestCaller): Promise<Identity> {
    const key = await inspect(bearer, caller);
    if (key.ok || !isUnknownKey(key.error)) return { user: null, key };
    return { user: await inspectUser(bearer), key: null };
  }

  /** Returns who a bearer token identifies: a user, or a workload that acts as a key. */
  async function userOrWorkload(token: string, user: Promise<UserVerdict>, caller: RequestCaller): Promise<Identity> {
    const found = await user;
    if (found.ok || !actsAsKey(found.error)) return { user: found, key: null };
    return { user: null, key: await inspect(token, caller) };
  }

  return (caller) => {
    const { bearer, xApiKey } = caller.credentials;
    if (bearer !== null && xApiKey === null && isForeignShaped(bearer)) return tryAsKey(bearer, caller);
    const token = bearer === null || isKeyShaped(bearer) ? null : bearer;
    const user = token === null ? null : inspectUser(token);
    if (isPromise(user) && token !== null && xApiKey === null) return userOrWorkload(token, user, caller);
    const presented = token === null ? presentedKey(caller.credentials) : xApiKey;
    const key = presented === null ? null : inspect(presented, caller);
    return isPromise(user) || isPromise(key) ? awaitBoth(user, key) : { user, key };
  };
}

const isUnknownKey = (problem: Problem): boolean =>
  problem.code === 'invalid_api_key' && (problem.reason === 'malformed' || problem.reason === 'unknown');

/** Turns an outage into a problem: nothing is known of the credential. Whether that matters depends on the request. */
const caught = <V>(inspected: Awaitable<V>): Awaitable<V | { readonly ok: false; readonly error: Problem }> =>
  isPromise(inspected) ? inspected.catch(outageAsProblem) : inspected;

const outageAsProblem = (error: unknown) =>
  ({ ok: false, error: { code: 'store_unavailable', reason: outageIn(error).reason } }) as const;

async function awaitBoth(user: Awaitable<Identity['user']>, key: Awaitable<Identity['key']>): Promise<Identity> {
  const [foundUser, foundKey] = await Promise.all([user, key]);
  return { user: foundUser, key: foundKey };
}

/** Returns whether a problem proves a credential wrong. Other problems say nothing about it. */
export const isWrong = ({ code }: Problem): boolean => code === 'invalid_token' || code === 'invalid_api_key';

const ENDS: readonly KeyRefusal[] = ['revoked', 'expired', 'rotated', 'parent ended'];

/** Returns whether a problem is about a key that was good, is on record, and has ended. A block is no end. */
export const isEndedKey = (problem: Problem): boolean =>
  problem.code === 'invalid_api_key' && ENDS.includes(problem.reason);

/** Who sent an HTTP request, identified on first use. A class: every request on /mcp creates one, and few use it. */
export class Sender {
  #identified: { readonly metaApiKey: string | null; readonly identity: Awaitable<Identity> } | undefined;
  #found: Identity | undefined;

  constructor(
    readonly context: RequestContext,
    readonly identifyCall: Identify,
    readonly log: Log,
    /** Where OAuth clients sign in; null: they are never challenged. */
    readonly signIn: SignIn | null,
  ) {}

  /** Resolves with who sent the request. `metaApiKey`, of a message's metadata, counts if no header has a credential. */
  identify(metaApiKey: string | null): Awaitable<Identity> {
    const key = carriesCredential(this.context.credentials) ? null : metaApiKey;
    if (this.#identified?.metaApiKey !== key) {
      this.#identified = {
        metaApiKey: key,
        identity: chain(this.identifyCall(callerOf(this.context, key)), (found) => {
          this.#found = found;
          this.context.call ??= { response: { sender: this.as(null) } } satisfies LoggedCall;
          return found;
        }),
      };
    }
    return this.#identified.identity;
  }

  /** Returns whether identifying takes time, or took some, in which the client may have cancelled its call. */
  get takesTime(): boolean {
    return isPromise(this.#identified?.identity);
  }

  /** Returns whom this kind of credential names, if that has been found out; null: any kind, and of two the key. */
  as(credential: Credential | null): Principal | undefined {
    const { user = null, key = null } = this.#found ?? {};
    if (credential !== 'user_jwt' && key !== null) {
      const named = key.ok ? { ...key.value, rule: key.rule ?? undefined } : refusedKeyIn(key.error);
      if (named !== undefined) return named;
    }
    return credential !== 'api_key' && user?.ok ? user.value : undefined;
  }

  /** Returns the problem of a request without a credential. Logs it for a tool whose guard would, as that doesn't run. */
  missing(tool: { readonly credential: Credential | null } | undefined): Problem {
    const { context, log, signIn } = this;
    if (tool?.credential) logMissing(log, tool.credential, callerOf(context));
    const { lacksScheme } = context.credentials;
    return { code: signIn?.handsOutKeys ? 'missing_api_key' : 'missing_token', ...(lacksScheme && { lacksScheme }) };
  }

  /**
   * Returns the problem of a bad bearer token, because clients sign in again only after an HTTP 401. Null if the
   * token is good, missing, can't be checked now, or stands beside `X-API-Key`, which then is the credential.
   */
  badBearer(): Awaitable<Problem | null> {
    const { bearer, xApiKey } = this.context.credentials;
    if (bearer === null || xApiKey !== null) return null;
    return chain(this.identify(null), ({ user, key }) => {
      const verdict = user ?? key;
      return verdict === null || verdict.ok || !isWrong(verdict.error) ? null : this.#refused(verdict.error);
    });
  }

  /**
   * Returns the problem of a key in a header that has ended, because hosts run their helper for another key again
   * only after an HTTP 401. Null if there is none.
   */
  endedKey(): Awaitable<Problem | null> {
    if (!carriesCredential(this.context.credentials)) return null;
    return chain(this.identify(null), ({ key }) =>
      key === null || key.ok || !isEndedKey(key.error) ? null : this.#refused(key.error),
    );
  }

  #refused(problem: Problem): Problem {
    logRefused(this.log, problem, callerOf(this.context));
    return problem;
  }
}
