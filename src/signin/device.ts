// A program without a browser asks for a key (RFC 8628): it shows a code, a person types that on the page of keys and
// decides, and the program, which asks again and again, gets a key that is made for it. Who asks chooses nothing.

import { createLruCache } from '../ground/cache.ts';
import { networkOf, prefixOf } from '../ground/ip.ts';
import { LIMITS } from '../ground/limits/index.ts';
import { createTokenBuckets } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../ground/runtime.ts';
import { hasLength, isScope, isStorable, splitScopes } from '../ground/text.ts';
import { keysPageUrl } from '../ground/urls.ts';
import { type Actor, actorFields, type Caller, personOf } from '../keys/actor.ts';
import { KEYS_PER_USER_MAX, type KeyOrder, type Minting } from '../keys/minting.ts';
import type { Audience } from '../keys/record.ts';
import type { Asked, OpenMax } from '../keys/store.ts';
import type { FindCode } from '../keys/unknown-keys.ts';
import { codeHash, makeCode } from './codes.ts';
import { type AccessToken, accessToken, createMakeKey, type MakingOptions } from './making.ts';
import { hasTwice, type NewKey, parameter, type TokenError } from './requests.ts';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** RFC 8628 §3.2. */
export interface DeviceAuthorization {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  readonly expires_in: number;
  readonly interval: number;
}

/** What a person is shown. All but address, time and resource are the asker's own words. */
export interface DeviceRequest {
  readonly clientName: string | null;
  readonly address: string;
  readonly askedAt: number;
  readonly expiresAt: number;
  readonly resource: string;
  readonly scopes: readonly string[];
}

/** RFC 8628 §3.5. */
type DeviceError = TokenError | 'authorization_pending' | 'slow_down' | 'access_denied' | 'expired_token';

export interface Device {
  ask(form: URLSearchParams, caller: Caller): Promise<Result<DeviceAuthorization, TokenError | Problem>>;
  /** The open request with this code. */
  look(actor: Actor, userCode: string): Promise<Result<DeviceRequest, Problem>>;
  /** `newKey`: null: no key. */
  decide(actor: Actor, userCode: string, newKey: NewKey | null): Promise<Result<void, Problem>>;
  /** Of the grant type DEVICE_GRANT. */
  redeem(
    form: URLSearchParams,
    caller: Caller,
  ): Promise<Result<AccessToken & { readonly key_id: string }, DeviceError | Problem>>;
}

export interface DeviceOptions extends MakingOptions {
  readonly keys: Pick<Minting, 'order' | 'mint'>;
  readonly findCode: FindCode;
  readonly audience: Audience;
  readonly publicUrl: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
}

const EXPIRES_IN_S = 600;
/** Clocks of processes may differ by a minute. One that is set back further must not prolong a request. */
const LEFT_MS_MAX = 2 * EXPIRES_IN_S * 1000;
const INTERVAL_S = 5;
/** A program that asks sooner is told to wait so much longer (RFC 8628 §3.5). */
const SLOWER_S = 5;
/** After which a program that found too many open requests may ask again. */
const RETRY_FULL_S = 60;

const { each, total } = LIMITS.keyRequests;
const OPEN_MAX: OpenMax = { each, network: LIMITS.keyRequestsOfNetwork.each, total };

/** For so long nobody is asked for whom too many requests were open. */
const FULL_MS = 1000;
/** Addresses and networks remembered. */
const FULL_MAX = 10_000;

const NAME_CHARS_MAX = 200;
const SCOPES_MAX = 100;

/** What the store keeps of a request, and of a decision. */
type RequestContent = Omit<DeviceRequest, 'expiresAt'>;
type Decision = { readonly order: KeyOrder } | { readonly refused: true };

const NOT_FOUND: Problem = { code: 'request_not_found' };

export function createDevice(options: DeviceOptions): Device {
  const { store, keys, findCode, audience, publicUrl, clock, random, sha256, log } = options;
  const makeKey = createMakeKey(options);
  const asking = createTokenBuckets(LIMITS.keyRequestsAsked, clock);
  const guesses = createTokenBuckets(LIMITS.wrongUserCodes, clock);
  const pace = createPace(clock);
  const full = createFull(clock);

  const userCodeHash = (userCode: string): string | null => {
    const letters = userCode.replace(/[-\s]/g, '').toUpperCase();
    return USER_CODE.test(letters) ? sha256(letters, 'hex') : null;
  };

  function hasEnded(endsAtMs: number): boolean {
    const leftMs = endsAtMs - clock.nowMs();
    return leftMs <= 0 || leftMs > LEFT_MS_MAX;
  }

  /** What is open under the code of a person, who may be wrong only so often. */
  async function find(actor: Actor, userCode: string) {
    const waitS = guesses.take(personOf(actor));
    if (waitS > 0) {
      log.warnThrottled('Rate limit exceeded', `codes ${personOf(actor)}`, actorFields(actor));
      return err<Problem>({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) });
    }
    const hash = userCodeHash(userCode);
    const found = hash === null ? null : await store.findAsked(hash, clock.nowMs(), personOf(actor));
    if (hash === null || found === null || hasEnded(found.endsAtMs)) return err(NOT_FOUND);
    guesses.give(personOf(actor), 1);
    const asked: RequestContent = JSON.parse(found.content); // written below
    return ok({ hash, asked, expiresAt: found.endsAtMs });
  }

  return {
    async ask(form, caller) {
      const asked = requestIn(form, audience);
      if (!asked.ok) return asked;
      const address = caller.clientAddress();
      const network = networkOf(address);
      const tooMany = (retryAfterS: number) => {
        log.warnThrottled('Rate limit exceeded', `asking ${network}`, { requestId: caller.requestId, address });
        return err<Problem>({ code: 'rate_limited', retryAfterS });
      };
      const waitS = asking.take(network);
      if (waitS > 0) return tooMany(Math.ceil(waitS));
      if (full.isFor(network)) return tooMany(RETRY_FULL_S);
      const [deviceCode, userCode] = [makeCode(random), makeUserCode(random)];
      const nowMs = clock.nowMs();
      const request: RequestContent = { ...asked.value, address, askedAt: nowMs };
      const put = await store.ask(
        {
          hash: sha256(deviceCode, 'hex'),
          userCodeHash: sha256(userCode, 'hex'),
          content: JSON.stringify(request),
          endsAtMs: nowMs + EXPIRES_IN_S * 1000,
          address: network,
          network: prefixOf(network),
        },
        OPEN_MAX,
        nowMs,
      );
      if (put !== 'asked') {
        full.remember(put, network);
        return tooMany(RETRY_FULL_S);
      }
      log.info('API key requested', { requestId: caller.requestId, address, resource: request.resource });
      const shown = `${userCode.slice(0, 4)}-${userCode.slice(4)}`;
      const page = keysPageUrl(publicUrl);
      return ok({
        device_code: deviceCode,
        user_code: shown,
        verification_uri: page,
        verification_uri_complete: `${page}#ask=${shown}`,
        expires_in: EXPIRES_IN_S,
        interval: INTERVAL_S,
      });
    },

    async look(actor, userCode) {
      const found = await find(actor, userCode);
      return found.ok ? ok({ ...found.value.asked, expiresAt: found.value.expiresAt }) : found;
    },

    async decide(actor, userCode, newKey) {
      const found = await find(actor, userCode);
      if (!found.ok) return found;
      const { hash, asked } = found.value;
      const { resource, address } = asked;
      const ordered = newKey === null ? null : keys.order(actor, { ...newKey, resource });
      if (ordered !== null && !ordered.ok) return ordered;
      const decision: Decision = ordered === null ? { refused: true } : { order: ordered.value };
      const newKeyOf = newKey === null ? null : actor.userId;
      const decided = await store.decide(
        { hash, decision: JSON.stringify(decision), newKeyOf, whose: personOf(actor) },
        KEYS_PER_USER_MAX,
        clock.nowMs(),
      );
      if (decided !== 'decided') return err(decided === 'full' ? { code: 'key_limit_reached' } : NOT_FOUND);
      log.info('API key request decided', { ...actorFields(actor), approved: newKey !== null, resource, address });
      return ok(undefined);
    },

    async redeem(form, caller) {
      const code = parameter(form, 'device_code');
      if (code === null) return err('invalid_request');
      const hash = codeHash(sha256, code);
      const found = hash === null ? ok(null) : await findCode(hash, caller);
      if (!found.ok) return found;
      if (hash === null || found.value === null || !found.value.isDevice || found.value.isTaken) {
        return err('invalid_grant');
      }
      const { endsAtMs, decision } = found.value;
      if (hasEnded(endsAtMs)) return err('expired_token');
      if (decision === null) return err(pace.isTooSoon(hash) ? 'slow_down' : 'authorization_pending');
      const decided: Decision = JSON.parse(decision); // written above
      if ('refused' in decided) return err('access_denied');
      const made = await makeKey(decided.order, hash, 'device', null, caller);
      if (!made.ok) return made;
      const { key, record } = made.value;
      return ok({ ...accessToken(key, record, clock.nowMs()), key_id: record.id });
    },
  };
}

/** Without vowels, so that no word comes of it (RFC 8628 §6.1). */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const USER_CODE_CHARS = 8;
const USER_CODE = new RegExp(`^[${LETTERS}]{${USER_CODE_CHARS}}$`);
/** The largest multiple of the letters in a byte: what is above would prefer some. */
const FAIR_BELOW = 256 - (256 % LETTERS.length);

function makeUserCode(random: RandomBytes): string {
  let code = '';
  while (code.length < USER_CODE_CHARS) {
    for (const byte of random(2 * USER_CODE_CHARS)) if (byte < FAIR_BELOW) code += LETTERS[byte % LETTERS.length];
  }
  return code.slice(0, USER_CODE_CHARS);
}

function requestIn(form: URLSearchParams, audience: Audience) {
  if (hasTwice(form)) return err<TokenError>('invalid_request');
  const clientName = parameter(form, 'client_name');
  if (clientName !== null && !(hasLength(clientName, 1, NAME_CHARS_MAX) && isStorable(clientName))) {
    return err<TokenError>('invalid_request');
  }
  const given = parameter(form, 'resource');
  const resource = given === null ? audience.own : audience.nameOf(given);
  if (!audience.names.includes(resource)) return err<TokenError>('invalid_target');
  const scopes = splitScopes(parameter(form, 'scope') ?? '').filter(isScope);
  return ok({ clientName, resource, scopes: [...new Set(scopes)].slice(0, SCOPES_MAX) });
}

/** Remembers for whom too many requests were open a moment ago, so that those who are refused cost no statement. */
function createFull(clock: Clock) {
  const untilMs = createLruCache<number>({ entries: FULL_MAX });
  const isFull = (what: string) => (untilMs.get(what) ?? Number.NEGATIVE_INFINITY) > clock.monotonicMs();
  const names = (address: string) => ({
    address_full: `address ${address}`,
    network_full: `network ${prefixOf(address)}`,
    all_full: 'all',
  });
  return {
    isFor: (address: string): boolean => Object.values(names(address)).some(isFull),
    remember(full: Exclude<Asked, 'asked'>, address: string): void {
      untilMs.set(names(address)[full], clock.monotonicMs() + FULL_MS);
    },
  };
}

/** Programs remembered, as this process saw them. */
const PACES_MAX = 10_000;

/** Whether a program asks sooner than it was told to. Each time that it does, its interval grows. */
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
