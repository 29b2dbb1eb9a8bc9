// What becomes of a device's request for a key: a person decides on it at the page /keys, and the program polls /token with
// the grant type `device_code` (RFC 8628 §3.4). The poll after the decision makes the key. The decision is no tool: a model
// with a user token must not approve its own request.
//
// POST /device/request   { userCode } → 200 { clientName, address, askedAt, expiresAt, resource, scopes }
// POST /device/decision  { userCode, approve: true, name, scopes, expiresInDays, rateLimit, quota } → 200 { approved }
// { userCode, approve: false } → 200 { approved }

import * as v from 'valibot';
import { parameter, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { personHandler } from '../../calls/person-requests.ts';
import { parserOf } from '../../calls/schema.ts';
import { createLruCache } from '../../ground/cache.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { type Actor, actorFields, personOf } from '../../keys/actor.ts';
import { shownServer } from '../../keys/audience.ts';
import type { DecidedKey } from '../../keys/minting.ts';
import { createMakeKey, isOver } from './codes.ts';
import {
  type DeviceDecision,
  type DeviceRequest,
  INTERVAL_S,
  REQUEST_LIFE_MS,
  userCodeHash,
} from './device-request.ts';
import type { SignInParts } from './options.ts';
import { createSlidingWindows } from './sliding-windows.ts';

const NOT_FOUND: Problem = { code: 'request_not_found' };
const NOT_DECIDED = { not_open: NOT_FOUND, full: { code: 'key_limit_reached' } } as const;

const readCode = parserOf(v.strictObject({ userCode: v.string() }));
const readDecision = parserOf(v.looseObject({ userCode: v.string(), approve: v.boolean() }));

export function deviceDecisionRoutes(options: SignInParts) {
  const { store, keys, audience, readKeyRequest, clock, sha256, log } = options;
  const guesses = createSlidingWindows(LIMITS.wrongUserCodes, clock);

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
    if (hash === null || found === null || isOver(found.endsAtMs, REQUEST_LIFE_MS, clock)) return err(NOT_FOUND);
    guesses.give(person);
    const request: DeviceRequest = JSON.parse(found.content); // written by device-request.ts
    return ok({ hash, request, expiresAt: found.endsAtMs });
  }

  /** Returns the server that the key is for, under the name that the person uses. */
  const shown = ({ publicUrl }: Actor, { resource }: DeviceRequest): string =>
    shownServer(resource, audience.serversFor(publicUrl).url);

  async function show(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const asked = readCode(body);
    if (!asked.ok) return asked;
    const found = await find(actor, asked.value.userCode);
    if (!found.ok) return found;
    const { request, expiresAt } = found.value;
    return ok({ ...request, resource: shown(actor, request), expiresAt });
  }

  async function decide(actor: Actor, body: unknown): Promise<Result<object, Problem>> {
    const asked = readDecision(body);
    if (!asked.ok) return asked;
    const { userCode, approve, ...fields } = asked.value;
    const newKey: Result<DecidedKey | null, Problem> = approve ? readKeyRequest(fields) : ok(null);
    if (!newKey.ok) return newKey;
    const found = await find(actor, userCode);
    if (!found.ok) return found;
    const { hash, request } = found.value;
    const ordered = newKey.value === null ? null : keys.order(actor, { ...newKey.value, server: request.resource });
    if (ordered?.ok === false) return ordered;
    const by = personOf(actor);
    const decision: DeviceDecision = ordered === null ? { refused: true, by } : { order: ordered.value };
    const newKeyOf = approve ? actor.userId : null;
    const decided = await store.decide(
      { hash, decision: JSON.stringify(decision), newKeyOf, fairnessKey: by },
      clock.nowMs(),
    );
    if (decided !== 'decided') return err(NOT_DECIDED[decided]);
    const { address } = request;
    const resource = shown(actor, request);
    log.info('API key request decided', { ...actorFields(actor), approved: approve, resource, address });
    return ok({ approved: approve });
  }

  const person = personHandler(options);
  return { deviceRequest: { post: person(show) }, deviceDecision: { post: person(decide) } };
}

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

export function createDeviceGrant(options: SignInParts): Redeem {
  const { findCode, clock } = options;
  const makeKey = createMakeKey(options);
  const pace = createPace(clock);

  return async (form, caller) => {
    const code = parameter(form, 'device_code');
    if (code === null) return refused('invalid_request', 'no device_code');
    const found = await findCode(code, caller);
    if (!found.ok) return found;
    if (found.value === null || !found.value.isDevice || found.value.isTaken) {
      return refused('invalid_grant', 'the device_code is unknown, was used before, or its owner is deleted');
    }
    const { hash, endsAtMs, decision } = found.value;
    if (isOver(endsAtMs, REQUEST_LIFE_MS, clock)) return refused('expired_token', null);
    if (decision === null) return refused(pace.isTooSoon(hash) ? 'slow_down' : 'authorization_pending', null);
    const decided: DeviceDecision = JSON.parse(decision); // written by device-decision.ts
    if ('refused' in decided) return refused('access_denied', null);
    const made = await makeKey(decided.order, hash, 'device', null, caller);
    if (!made.ok) return made;
    const { key, record } = made.value;
    return ok({ ...accessToken(key, record, record.createdAtMs), key_id: record.id });
  };
}

/** Each `slow_down` extends the interval by this (RFC 8628 §3.5). */
const SLOWER_S = 5;
/** The most programs that this process tracks. */
const PACES_MAX = 10_000;

/** Creates the check whether a program polls too soon. Each time it does, its interval grows. */
function createPace(clock: Clock) {
  const paces = createLruCache<{ readonly intervalS: number; readonly askedAtMs: number }>({ entries: PACES_MAX });
  return {
    isTooSoon(hash: string): boolean {
      const askedAtMs = clock.monotonicMs();
      const last = paces.get(hash);
      const isTooSoon = last !== undefined && askedAtMs - last.askedAtMs < last.intervalS * 1000;
      const intervalS = (last?.intervalS ?? INTERVAL_S) + (isTooSoon ? SLOWER_S : 0);
      paces.set(hash, { intervalS, askedAtMs });
      return isTooSoon;
    },
  };
}
