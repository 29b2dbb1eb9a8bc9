// The grant type `device_code` (RFC 8628 §3.4): a program that has asked for a key polls until a person has decided.
// The poll after that creates the key.

import { parameter, refused } from '../../api/oauth.ts';
import { accessToken, type Redeem } from '../../api/token.ts';
import { createLruCache } from '../../ground/cache.ts';
import { ok } from '../../ground/result.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import { codeHash } from './codes.ts';
import { type DeviceDecision, hasEnded, INTERVAL_S } from './device-request.ts';
import { createMakeKey, type MakingOptions } from './making.ts';
import type { FindCode } from './store.ts';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

export interface DeviceGrantOptions extends MakingOptions {
  readonly findCode: FindCode;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export function createDeviceGrant(options: DeviceGrantOptions): Redeem {
  const { findCode, clock, sha256 } = options;
  const makeKey = createMakeKey(options);
  const pace = createPace(clock);

  return async (form, caller) => {
    const code = parameter(form, 'device_code');
    if (code === null) return refused('invalid_request', 'no device_code');
    const hash = codeHash(sha256, code);
    const found = hash === null ? ok(null) : await findCode(hash, caller);
    if (!found.ok) return found;
    if (hash === null || found.value === null || !found.value.isDevice || found.value.isTaken) {
      return refused('invalid_grant', 'the device_code is unknown, was used before, or its owner is deleted');
    }
    const { endsAtMs, decision } = found.value;
    if (hasEnded(endsAtMs, clock)) return refused('expired_token', null);
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
