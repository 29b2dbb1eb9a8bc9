// The guard for API keys: finds the presented key, verifies it, and adds its identity to the call. proof.ts revalidates
// it before anything leaves. Also words the log's lines about credentials, of both kinds.

import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, err, ok, type Result } from '../ground/result.ts';
import type { Caller } from '../keys/actor.ts';
import { isJwtShaped, isKeyShaped } from '../keys/record.ts';
import type { KeyIdentity, RuleOfToken, Verified, VerifiedKey } from '../keys/verify.ts';
import type { Log, LogFields, LogRepeated, RequestIds } from '../watch/log.ts';
import { excerptOf } from '../watch/redact.ts';
import type { Credentials } from '../web/context.ts';
import type { Call, Principal, RequestCaller, Revalidate } from './call.ts';
import type { Credential, Guard } from './guard.ts';

export interface KeyAuth {
  readonly auth: KeyIdentity;
}

export type VerifyKey = (token: string, caller: Caller) => Awaitable<Verified>;

/** Verifies a key again, without counting a use; with a rule, the key of the token that it let in. */
export type RevalidateKey = (token: string, caller: Caller, rule: RuleOfToken | null) => Awaitable<Verified>;

/** Returns the key in the first place that holds one, even if it is wrong and a later one is right. */
export const presentedKey = ({ xApiKey, bearer, metaApiKey }: Credentials): string | null =>
  xApiKey ?? bearer ?? metaApiKey;

export type LogUse = LogRepeated<VerifiedKey>;

export const logsUses = (log: Log): LogUse => log.repeated('API key authentication successful', usedKey);

function usedKey({ value, rule }: VerifiedKey): LogFields {
  const { keyId, subject: userId, parentId, workload } = value;
  return { keyId, userId, parentId: parentId ?? undefined, rule: rule?.id, subject: workload?.subject };
}

/** Creates the guard. Without `revalidate` the key is never revalidated. */
export function apiKeyGuard(
  verify: VerifyKey,
  log: Log,
  revalidate?: RevalidateKey,
  logUse = logsUses(log),
): Guard<Call, KeyAuth> {
  const revalidateCall = revalidate && revalidateWith(revalidate, log);
  function logged(verified: Verified, call: Call): Result<KeyAuth, Problem> {
    if (verified.ok) {
      const identified = setIdentity(call, verified);
      if (revalidateCall !== undefined) call.proof.add(verified.verifiedAtMs, revalidateCall);
      const { keyId, subject: userId, workload } = verified.value;
      // With all that may differ from line to line: a database shell may change the owner, many workloads may act as a key.
      const name = workload === null ? keyId : `${keyId} ${verified.rule?.id} ${workload.subject}`;
      logUse(call.caller, name, userId, verified);
      return ok(identified);
    }
    const problem = withKindSent(verified.error, presentedKey(call.caller.credentials) ?? '');
    call.response.refused = refusedKeyIn(problem);
    logRefused(log, problem, call.caller);
    return err(problem);
  }
  const decide: Guard<Call, KeyAuth> = (call) => {
    const { caller } = call;
    const key = presentedKey(caller.credentials);
    if (key === null) {
      return err({ code: 'missing_api_key', ...logMissing(log, 'api_key', caller) });
    }
    return chain(verify(key, caller), logged, call);
  };
  return Object.assign(decide, { credential: 'api_key' as const });
}

/** Puts the key's identity on the call, as of the latest proof: earlier the key may have had more scopes. */
function setIdentity(call: Call & { auth?: KeyIdentity }, verified: VerifiedKey): Call & KeyAuth {
  call.auth = verified.value;
  call.proof.key = verified;
  return call as Call & KeyAuth;
}

const revalidateWith =
  (revalidate: RevalidateKey, log: Log): Revalidate =>
  async (call) => {
    const { caller, proof } = call;
    const verified = await revalidate(presentedKey(caller.credentials) ?? '', caller, proof.key?.rule ?? null);
    if (verified.ok) {
      const identified = setIdentity(call, verified);
      const { demanded } = proof;
      const hasAll = demanded.every((scope) => verified.value.scopes.includes(scope));
      return hasAll ? ok(verified.verifiedAtMs) : refuseScopes(log, identified, demanded);
    }
    logRefused(log, verified.error, caller);
    return verified;
  };

/** Adds to the problem the hint that the key looks like a user token. */
const withKindSent = (problem: Problem, presented: string): Problem =>
  problem.code === 'invalid_api_key' && problem.issuer === undefined && isJwtShaped(presented)
    ? { ...problem, sent: 'user_token' }
    : problem;

/** `auth` comes from the guard for keys or users, if there is one. */
export interface GuardedCall {
  readonly caller: RequestIds;
  readonly auth?: Partial<KeyIdentity & { readonly actor: string }>;
}

export function callerIds({ caller: { requestId, traceId }, auth = {} }: GuardedCall): LogFields {
  const { keyId, subject: userId, parentId, actor } = auth;
  return { requestId, traceId, keyId, userId, parentId: parentId ?? undefined, ...(actor !== userId && { actor }) };
}

/** Logs that a key lacks one of these scopes. Returns the refusal. */
export function refuseScopes(log: Log, call: GuardedCall, required: readonly string[]) {
  log.warn('Insufficient scopes', { ...callerIds(call), required, held: call.auth?.scopes ?? [] });
  return err({ code: 'insufficient_scope', required } as const);
}

const MISSING = { api_key: 'No API key provided', user_jwt: 'No user token provided' } as const;

/** Logs that a call has no credential of this kind. Returns the hint that one was sent without a scheme. */
export function logMissing(log: Log, credential: Credential, caller: RequestCaller, more?: LogFields) {
  const { requestId, traceId } = caller;
  const { lacksScheme } = caller.credentials;
  log.warn(MISSING[credential], { requestId, traceId, ...more, lacksScheme });
  return lacksScheme ? { lacksScheme } : {};
}

/** Returns the hint that the user token looks like a key. */
export const keyInstead = (presented: string | null): { readonly sent?: 'api_key' } =>
  presented !== null && isKeyShaped(presented) ? { sent: 'api_key' } : {};

/** Returns whether a JWT was refused as a user token because a rule lets it in as a key. */
export const actsAsKey = (problem: Problem): boolean => problem.code === 'invalid_token' && problem.sent === 'api_key';

/** Returns whom a problem is about: a key that is in the database, or a token of an issuer that a rule names. */
export function refusedKeyIn(problem: Problem): Principal | undefined {
  if (problem.code !== 'invalid_api_key') return undefined;
  const { keyId, keyName, userId, parentId, rule: id, issuer, subject } = problem;
  if (keyId === undefined) return issuer === undefined ? undefined : { subject: undefined };
  const rule = id === undefined ? undefined : { id, workload: { issuer, subject } };
  return { keyId, keyName, subject: userId, parentId, rule };
}

/** The most of a token's subject in a line about a refusal, which whoever has a signed token can cause at will. */
const SUBJECT_CHARS_MAX = 200;

/** Logs why a key or user token is refused; nothing of other problems. */
export function logRefused(log: Log, error: Problem, { requestId, traceId }: RequestIds): void {
  if (error.code === 'invalid_token') {
    log.warn('Invalid user token', { requestId, traceId, reason: error.reason, sent: error.sent });
  }
  if (error.code === 'invalid_api_key') {
    const { code: _, keyName: __, subject, ...evidence } = error; // only a known key has ids
    const shown = subject === undefined ? undefined : excerptOf(subject, SUBJECT_CHARS_MAX);
    log.warn('Invalid or expired API key', { requestId, traceId, ...evidence, subject: shown });
  }
}
