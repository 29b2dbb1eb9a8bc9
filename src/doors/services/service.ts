// Authenticates services for /introspect and /changes: the caller needs a key with the scope `introspect`.

import { apiKeyGuard, type KeyAuth, type LogUse, logRefused, type VerifyKey } from '../../calls/api-key.ts';
import { type Call, callOf } from '../../calls/call.ts';
import { addTo, type Guard, PASS, sequence } from '../../calls/guard.ts';
import type { Guards } from '../../calls/guards.ts';
import type { Recheck } from '../../calls/proof.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Signing } from '../../ground/signed-text.ts';
import type { Feed } from '../../keys/feed.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Verifier } from '../../keys/verify.ts';
import type { StoreOf } from '../../store/database.ts';
import type { Usage } from '../../uses/usage.ts';
import type { Log } from '../../watch/log.ts';
import { formIn } from '../../web/body.ts';
import { carriesCredential, type RequestContext } from '../../web/context.ts';
import { oauthErrorResponse } from '../../web/problem-response.ts';
import type { BodyHandler } from '../../web/router.ts';
import { refuseService } from './refuse.ts';

const SERVICE_SCOPE = 'introspect';

export const INVALID: Problem = { code: 'invalid_input', issues: [] };

/** Responds to what is wrong with a caller. A budget that is used up is his: no limit of another key is meant. */
export const refuseCaller = (problem: Problem): Response =>
  problem.code === 'rate_limited' ? oauthErrorResponse(problem, null, { error: 'slow_down' }) : refuseService(problem);

interface ClientCredentials {
  readonly id: string;
  readonly secret: string;
}

/** The caller's client credentials; null if its key came as a bearer token or in X-API-Key. */
interface ClientCall {
  readonly client: ClientCredentials | null;
}

export type ServiceCall = Call & ClientCall & KeyAuth;

/** What this door takes of the core. */
export interface ServicesOptions {
  readonly feed: Feed;
  readonly store: KeyStore;
  readonly storeOf: StoreOf;
  readonly verifier: Verifier;
  readonly usage: Usage;
  /** Verifies the key of a service, and the one that it asks about. */
  readonly verifyKey: VerifyKey;
  readonly guards: Guards;
  readonly recheck: Recheck;
  /** Returns how to read the secret of marks and cursors, and the id of its database. */
  readonly signing: (use: 'client_id') => Signing;
  /** The feed's clock, which also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly log: Log;
}

/** Answers the form of a service that was admitted. The request arrived at this time (monotonic). */
type Answer = (
  caller: ServiceCall,
  form: URLSearchParams,
  arrivedAtMs: number,
  context: RequestContext,
) => Promise<Response>;

interface ServiceGuardMore {
  /** Logs each request of a good key; by default as for tools. */
  readonly logUse?: LogUse;
  readonly costOf?: (form: URLSearchParams) => number;
}

/** Creates the handler of a route, which throws a StoreOutage if the caller's key can't be verified. */
export function serviceHandler(
  { verifyKey, verifier, guards, ageClock, log }: ServicesOptions,
  { logUse, costOf = () => 1 }: ServiceGuardMore,
  answer: Answer,
): BodyHandler {
  const guard = sequence<Call & ClientCall, KeyAuth, object, object>(
    apiKeyGuard(verifyKey, log, verifier.revalidate, logUse),
    clientIdGuard(log),
    guards.scopes(SERVICE_SCOPE),
  );
  return async (context, body) => {
    const arrivedAtMs = ageClock.monotonicMs();
    if (!body.ok) return refuseService(body.error);
    const form = formIn(body.value);
    const inForm = clientIn(form);
    if (!inForm.ok) return refuseService(inForm.error);
    // The key is in a header, in `Authorization: Basic`, or in the form.
    const client = carriesCredential(context.credentials) ? null : (readBasic(context.headers) ?? inForm.value);
    const call = Object.assign(callOf(context, client?.secret || null, { cost: costOf(form) }), { client });
    const allowed = await guard(call);
    if (!allowed.ok) return refuseCaller(allowed.error);
    return answer(addTo(call, allowed.value), form, arrivedAtMs, context);
  };
}

const BASIC = /^Basic +(?=.)/i;

/**
 * Returns the credentials in `Authorization: Basic`, each part form-encoded (RFC 6749 §2.3.1). Null if absent; empty if
 * not decodable.
 */
function readBasic(headers: Headers): ClientCredentials | null {
  const authorization = headers.get('authorization') ?? '';
  if (!BASIC.test(authorization)) return null;
  try {
    const [, id = '', secret = ''] = /^([^:]*):(.*)$/s.exec(atob(authorization.replace(BASIC, ''))) ?? [];
    return { id: formDecoded(id), secret: formDecoded(secret) };
  } catch {
    return { id: '', secret: '' };
  }
}

const formDecoded = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));

/** Returns the credentials in a form (RFC 6749 §2.3.1), or null. Fails if one is repeated (§3.2). */
function clientIn(form: URLSearchParams): Result<ClientCredentials | null, Problem> {
  const [ids, secrets] = [form.getAll('client_id'), form.getAll('client_secret')];
  if (ids.length > 1 || secrets.length > 1) return err(INVALID);
  const [id = ''] = ids;
  const [secret = ''] = secrets;
  return ok(secret === '' ? null : { id, secret });
}

/** Creates the guard that refuses a client id that isn't the id of the key sent as the secret. */
function clientIdGuard(log: Log): Guard<Call & ClientCall & KeyAuth> {
  return (call) => {
    const { client, auth } = call;
    const { keyId, subject: userId } = auth;
    if (client === null || client.id === keyId) return PASS;
    const problem = { code: 'invalid_api_key', reason: 'other_client_id', keyId, userId } as const;
    logRefused(log, problem, call.caller);
    return err(problem);
  };
}
