// POST /device_authorization (RFC 8628 §3.1): stores a program's request for a key, with a short code that a person types.
// device-decision.ts has the person's decision. Anybody may ask, so requests are bounded by address, by network and in all.

import { createRefuse, hasRepeatedField, parameter, type Refusal, refused } from '../../api/oauth.ts';
import { callerOf } from '../../calls/call.ts';
import { networkOf } from '../../ground/ip.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { createTokenBuckets } from '../../ground/limits/rates.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import { firstParts, isKeyName, isScope } from '../../ground/text.ts';
import { keysPageUrl } from '../../ground/urls.ts';
import type { Caller } from '../../keys/actor.ts';
import { type BindableServers, shownServer, THIS_SERVER } from '../../keys/audience.ts';
import { SCOPES_CHARS_MAX, SCOPES_MAX } from '../../keys/grants.ts';
import type { KeyOrder } from '../../keys/minting.ts';
import { excerptOf } from '../../watch/redact.ts';
import { type Body, formIn } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { json } from '../../web/headers.ts';
import { makeCode } from './codes.ts';
import type { Asked } from './open-requests.ts';
import type { SignInParts } from './options.ts';
import { createSlidingWindows } from './sliding-windows.ts';

const EXPIRES_IN_S = 600;
export const REQUEST_LIFE_MS = EXPIRES_IN_S * 1000;

/** A program that polls sooner gets `slow_down` (RFC 8628 §3.5). */
export const INTERVAL_S = 5;

/** What a program asks for. Except for address, time and resource, these are its own words. */
export interface DeviceRequest {
  readonly clientName: string | null;
  readonly address: string;
  readonly askedAt: number;
  /** The server that the key is for, by its stored name (keys/audience.ts). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

/** A refusal names its person (`by`, from personOf), so that two people's refusals differ. */
export type DeviceDecision = { readonly order: KeyOrder } | { readonly refused: true; readonly by: string };

/** The letters of a user code, without vowels, so that codes spell no words (RFC 8628 §6.1). */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const USER_CODE_CHARS = 8;
const USER_CODE = new RegExp(`^[${LETTERS}]{${USER_CODE_CHARS}}$`);
/** The largest multiple of the number of letters in a byte. Bytes above would favor some letters. */
const FAIR_BELOW = 256 - (256 % LETTERS.length);

/** Creates the code that a person types: `XXXX-XXXX`. */
function makeUserCode(random: RandomBytes): string {
  let code = '';
  while (code.length < USER_CODE_CHARS) {
    for (const byte of random(2 * USER_CODE_CHARS)) if (byte < FAIR_BELOW) code += LETTERS[byte % LETTERS.length];
  }
  return `${code.slice(0, 4)}-${code.slice(4, USER_CODE_CHARS)}`;
}

/** Returns the hash under which the store keeps a user code, however a person types it; null if it is no code. */
export function userCodeHash(sha256: Sha256, userCode: string): string | null {
  const letters = userCode.replace(/[^a-z]/gi, '').toUpperCase();
  return USER_CODE.test(letters) ? sha256(letters, 'hex') : null;
}

/** Retry-After if there are too many open requests. */
const RETRY_FULL_S = 60;

export function deviceAuthorizationRoute(options: SignInParts) {
  const { store, audience, clock, random, sha256, log } = options;
  const rates = createTokenBuckets(LIMITS.keyRequestsAsked, clock);
  const fullCache = createFullCache(clock);
  const refuse = createRefuse('device_authorization', log);

  /** Stores the request. Resolves with 0, or with the seconds to wait if it isn't stored. */
  async function put(request: DeviceRequest, askedFrom: string, deviceCode: string, userCode: string): Promise<number> {
    const waitS = rates.take(askedFrom);
    if (waitS > 0) return Math.ceil(waitS);
    if (fullCache.has(askedFrom)) return RETRY_FULL_S;
    const asked = await store.ask(
      {
        hash: sha256(deviceCode, 'hex'),
        userCodeHash: userCodeHash(sha256, userCode) ?? '', // never null: makeUserCode made the code
        content: JSON.stringify(request),
        endsAtMs: request.askedAt + REQUEST_LIFE_MS,
        askedFrom,
        network: prefixOf(askedFrom),
      },
      request.askedAt,
    );
    if (asked === 'asked') return 0;
    fullCache.add(asked, askedFrom);
    return RETRY_FULL_S;
  }

  async function ask(form: URLSearchParams, caller: Caller): Promise<Result<object, Refusal | Problem>> {
    const servers = audience.serversFor(caller.publicUrl);
    const said = requestIn(form, servers);
    if (!said.ok) return said;
    const { requestId } = caller;
    const address = caller.clientAddress();
    const askedFrom = networkOf(address);
    const [deviceCode, userCode] = [makeCode(random), makeUserCode(random)];
    const retryAfterS = await put({ ...said.value, address, askedAt: clock.nowMs() }, askedFrom, deviceCode, userCode);
    if (retryAfterS > 0) {
      log.warnThrottled('Rate limit exceeded', `asking ${askedFrom}`, { requestId, address });
      return err({ code: 'rate_limited', retryAfterS });
    }
    log.info('API key requested', { requestId, address, resource: shownServer(said.value.resource, servers.url) });
    const page = keysPageUrl(servers.url);
    return ok({
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: page,
      verification_uri_complete: `${page}#ask=${userCode}`,
      expires_in: EXPIRES_IN_S,
      interval: INTERVAL_S,
    });
  }

  async function post(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const asked = await ask(formIn(body.value), callerOf(context));
    return asked.ok ? json(200, asked.value) : refuse(context, asked.error);
  }

  return { post, refuse };
}

function requestIn(form: URLSearchParams, { nameOf }: BindableServers) {
  if (hasRepeatedField(form)) return refused('invalid_request', 'a field twice');
  const clientName = parameter(form, 'client_name');
  if (clientName !== null && !isKeyName(clientName))
    return refused('invalid_request', 'a client_name that is not valid');
  const given = parameter(form, 'resource');
  const resource = given === null ? THIS_SERVER : nameOf(given);
  if (resource === null) {
    const about = { resource: excerptOf(given ?? '') };
    return refused('invalid_target', 'OAUTH_RESOURCES does not list the resource', about);
  }
  return ok({ clientName, resource, scopes: firstScopes(parameter(form, 'scope') ?? '') });
}

/** Keeps as many scopes as a key may have, because a stranger's words stay in the database for an hour. */
function firstScopes(list: string): readonly string[] {
  const scopes = firstParts(list, SCOPES_MAX, isScope);
  let chars = 0;
  return scopes.filter((scope) => {
    chars += scope.length;
    return chars <= SCOPES_CHARS_MAX;
  });
}

/** What is remembered as full for a second. */
const FULL = { most: 1, inS: 1 };

/** Creates the negative cache: it refuses without a query of the database. */
function createFullCache(clock: Clock) {
  const full = createSlidingWindows(FULL, clock);
  const names = (askedFrom: string) => ({
    address_full: `address ${askedFrom}`,
    network_full: `network ${prefixOf(askedFrom)}`,
    all_full: 'all',
  });
  return {
    has: (askedFrom: string): boolean => Object.values(names(askedFrom)).some((what) => full.waitS(what) > 0),
    add: (what: Exclude<Asked, 'asked'>, askedFrom: string): number => full.take(names(askedFrom)[what]),
  };
}

/**
 * Returns the common text prefix of all addresses of the same /24 (IPv4) or /48 (IPv6), which one customer of a provider
 * may have. `askedFrom` comes from networkOf; anything else is returned as it is.
 */
function prefixOf(askedFrom: string): string {
  if (askedFrom.endsWith('::/64')) return `${askedFrom.split(':', 3).join(':')}:`;
  return /^\d+\.\d+\.\d+\.\d+$/.test(askedFrom) ? askedFrom.replace(/\d+$/, '') : askedFrom;
}
