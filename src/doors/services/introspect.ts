// POST /introspect: tells services whether a token is a good API key, and whose (RFC 7662). It counts against neither
// key's rate limit, unless the service asks for a lease (lease.ts): then the request is a call of the key.

import { apiKeyGuard, type KeyAuth } from '../../calls/api-key.ts';
import { Call } from '../../calls/call.ts';
import { addTo, type Guard } from '../../calls/guard.ts';
import type { Problem } from '../../ground/problem.ts';
import { parseCost, type RateLimitStates } from '../../ground/rate-limit.ts';
import { err, ok } from '../../ground/result.ts';
import { joinScopes } from '../../ground/text.ts';
import { countedKeyId } from '../../keys/verify.ts';
import { json } from '../../web/headers.ts';
import type { BodyHandler } from '../../web/router.ts';
import type { BeginLease } from './lease.ts';
import { CURSOR_CHARS_MAX } from './recent-changes.ts';
import { refuseService } from './refuse.ts';
import { type Reported, usedIn } from './reported-uses.ts';
import { INVALID, refuseCaller, type ServicesOptions, serviceHandler } from './service.ts';

export function introspectRoute(beginLease: BeginLease, reported: Reported, options: ServicesOptions): BodyHandler {
  const { verifyKey, verifier, guards, recheck, usage, log } = options;
  const costOf = (form: URLSearchParams) => (form.has('lease') ? (costIn(form) ?? 1) : 1);
  const keyGuard: Guard<Call, KeyAuth> = apiKeyGuard(verifyKey, log, verifier.revalidate);

  return serviceHandler(options, { costOf }, async (caller, form, arrivedAtMs, context) => {
    const fields = fieldsOf(form);
    if (!fields.ok) return refuseService(fields.error);
    const { token, resources, lease } = fields.value;
    if (lease !== null) await reported.count(lease.used, caller);
    const leaseFieldsOf = lease && (await beginLease(lease.cursor, arrivedAtMs));
    // Unknown keys count against the calling key: a service sends strangers' tokens from one address.
    const credentials = { xApiKey: token, bearer: null, metaApiKey: null };
    const { keyId } = caller.auth;
    const asked = new Call(context, credentials, {
      lookupKeyId: countedKeyId(caller.auth),
      resources,
      ...(lease !== null && { cost: lease.cost }),
    });
    const found = await keyGuard(asked);
    if (!found.ok) return refuseToken(found.error);
    const known = addTo(asked, found.value);
    if (lease !== null) {
      const admitted = await guards.limits(known);
      if (!admitted.ok) return refuseService(admitted.error);
    }
    // The response tells the holder of one key that another is good, so both must still be.
    const ended = await recheck([caller, asked]);
    const [refused, askedEnded] = [ended.get(caller), ended.get(asked)];
    if (refused !== undefined) return refuseCaller(refused);
    if (askedEnded !== undefined) return refuseToken(askedEnded);
    const { key } = asked.proof;
    const limits = key && limitFields(usage.limitsOf(key.holder));
    const leaseFields = key && leaseFieldsOf?.(key, keyId);
    return json(200, { ...activeToken(known, context.publicUrl), ...limits, ...leaseFields });
  });
}

const LEASE_FIELDS = ['lease', 'used', 'cost'];

/** Reads the fields. `resources`: the servers that the token is for; none: this one. */
function fieldsOf(form: URLSearchParams) {
  const [token = '', ...more] = form.getAll('token');
  if (token === '' || more.length > 0) return err(INVALID);
  if (LEASE_FIELDS.some((name) => form.getAll(name).length > 1)) return err(INVALID);
  const resources = form.getAll('resource').filter((resource) => resource !== '');
  const fields = { token, resources };
  const cursor = form.get('lease');
  if (cursor === null) return ok({ ...fields, lease: null }); // for one use, which counts as no call of the key
  const used = usedIn(form.get('used') ?? '');
  if (!used.ok) return used;
  const cost = costIn(form);
  if (cost === null) return err(INVALID);
  if (cursor.length > CURSOR_CHARS_MAX || form.getAll('resource').length > 1) return err(INVALID);
  return ok({ ...fields, lease: { cursor, cost, used: used.value } });
}

const costIn = (form: URLSearchParams): number | null => parseCost(form.get('cost') || '1');

const activeToken = ({ auth }: KeyAuth, iss: string) => ({
  active: true,
  scope: joinScopes(auth.scopes),
  client_id: auth.keyId,
  sub: auth.subject,
  token_type: 'api_key',
  ...(auth.expiresAtMs !== null && { exp: Math.floor(auth.expiresAtMs / 1000) }),
  iat: Math.floor(auth.createdAtMs / 1000),
  iss,
  jti: auth.keyId,
  key_name: auth.keyName,
  ...(auth.metadata !== null && { metadata: auth.metadata }),
  ...(auth.parentId !== null && { parent: auth.parentId }),
  // Who acts as the key (RFC 8693 §4.1).
  ...(auth.workload !== null && { act: { iss: auth.workload.issuer, sub: auth.workload.subject } }),
});

/** Returns the fields that say what is left of the limit with the least left; of equal ones, of the one that ends later. */
function limitFields(states: RateLimitStates) {
  const [tightest] = states.toSorted((a, b) => a.remaining - b.remaining || b.resetS - a.resetS);
  if (tightest === undefined) return {};
  const { limit, remaining, resetS } = tightest;
  return { limit: limit.requests, remaining, reset: resetS };
}

/**
 * Responds to a refusal. A bad key is inactive, whatever its fault (RFC 7662 §2.2). Other problems say nothing about
 * the key.
 */
function refuseToken(problem: Problem): Response {
  if (problem.code === 'invalid_api_key') return json(200, { active: false });
  return refuseCaller(problem);
}
