// Handles a person's decision on a program's request for a key, for the page /keys. This is no tool: a model with a
// user token must not approve its own request.
//
// POST /device/request   { userCode } → 200 { clientName, address, askedAt, expiresAt, resource, scopes }
// POST /device/decision  { userCode, approve: true, name, scopes, expiresInDays, rateLimit, quota } → 200 { approved }
// { userCode, approve: false } → 200 { approved }

import * as v from 'valibot';
import type { Call } from '../../calls/call.ts';
import type { Guard } from '../../calls/guard.ts';
import { personHandler } from '../../calls/person.ts';
import { parserOf } from '../../calls/schema.ts';
import type { UserAuth } from '../../calls/user-jwt.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { createSlidingBuckets } from '../../ground/limits/rates.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import { type Actor, actorFields, personOf } from '../../keys/actor.ts';
import { type Audience, shownServer } from '../../keys/audience.ts';
import type { DecidedKey, Minting, ReadKeyRequest } from '../../keys/minting.ts';
import type { Log } from '../../watch/log.ts';
import { type DeviceDecision, type DeviceRequest, hasEnded, userCodeHash } from './device-request.ts';
import type { CodeStore } from './store.ts';

export interface DeviceDecisionOptions {
  readonly store: Pick<CodeStore, 'findAsked' | 'decide'>;
  readonly keys: Pick<Minting, 'order'>;
  readonly audience: Audience;
  readonly guards: { readonly userJwt: Guard<Call, UserAuth> };
  readonly readKeyRequest: ReadKeyRequest;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
}

const NOT_FOUND: Problem = { code: 'request_not_found' };

const readCode = parserOf(v.strictObject({ userCode: v.string() }));
const readDecision = parserOf(v.looseObject({ userCode: v.string(), approve: v.boolean() }));

export function deviceDecisionRoutes(options: DeviceDecisionOptions) {
  const { store, keys, audience, guards, readKeyRequest, clock, sha256, log } = options;
  const guesses = createSlidingBuckets(LIMITS.wrongUserCodes, clock);

  /** Finds the open request of a user code. Each person's wrong guesses are limited. */
  async function find(actor: Actor, userCode: string) {
    const person = personOf(actor);
    const waitS = guesses.take(person);
    if (waitS > 0) {
      log.warnThrottled('Rate limit exceeded', `codes ${person}`, actorFields(actor));
      return err<Problem>({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
    }
    const hash = userCodeHash(sha256, userCode);
    const found = hash === null ? null : await store.findAsked(hash, clock.nowMs(), person);
    if (hash === null || found === null || hasEnded(found.endsAtMs, clock)) return err(NOT_FOUND);
    guesses.give(person, 1);
    const request: DeviceRequest = JSON.parse(found.content); // written by device-authorization.ts
    return ok({ hash, request, expiresAt: found.endsAtMs });
  }

  /** Returns the server that the key is for, under the name that the person uses. */
  const shown = ({ publicUrl }: Actor, { resource }: DeviceRequest): string =>
    shownServer(audience.stored(resource), audience.serversFor(publicUrl).url);

  async function show(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const asked = readCode(body);
    if (!asked.ok) return asked;
    const found = await find(actor, asked.value.userCode);
    if (!found.ok) return found;
    const { request, expiresAt } = found.value;
    return ok({ ...request, resource: shown(actor, request), expiresAt });
  }

  async function decide(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const decision = readDecision(body);
    if (!decision.ok) return decision;
    const { userCode, approve, ...fields } = decision.value;
    const newKey: Result<DecidedKey | null, Problem> = approve ? readKeyRequest(fields) : ok(null);
    if (!newKey.ok) return newKey;
    const found = await find(actor, userCode);
    if (!found.ok) return found;
    const decided = await put(actor, found.value.hash, found.value.request, newKey.value);
    return decided.ok ? ok({ approved: approve }) : decided;
  }

  /** Stores the decision. `newKey` is null if the person refuses. */
  async function put(
    actor: Actor,
    hash: string,
    request: DeviceRequest,
    newKey: DecidedKey | null,
  ): Promise<Result<void, Problem>> {
    const ordered =
      newKey === null ? null : keys.order(actor, { ...newKey, server: audience.stored(request.resource) });
    if (ordered !== null && !ordered.ok) return ordered;
    const by = personOf(actor);
    const decision: DeviceDecision = ordered === null ? { refused: true, by } : { order: ordered.value };
    const newKeyOf = newKey === null ? null : actor.userId;
    const decided = await store.decide(
      { hash, decision: JSON.stringify(decision), newKeyOf, fairnessKey: by },
      clock.nowMs(),
    );
    if (decided !== 'decided') return err(decided === 'full' ? { code: 'key_limit_reached' } : NOT_FOUND);
    const { address } = request;
    const resource = shown(actor, request);
    log.info('API key request decided', { ...actorFields(actor), approved: newKey !== null, resource, address });
    return ok(undefined);
  }

  const person = personHandler(guards.userJwt);
  return { request: { post: person(show) }, decision: { post: person(decide) } };
}
