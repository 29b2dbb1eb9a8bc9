// Defines the stored request of a program without a browser (RFC 8628): the program's words, the short code that a
// person types, and the person's decision.

import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import type { KeyOrder } from '../../keys/minting.ts';

export const EXPIRES_IN_S = 600;
/**
 * Tolerates clocks of processes that differ by a minute. A clock that is set back further must not prolong a request.
 */
const LEFT_MS_MAX = 2 * EXPIRES_IN_S * 1000;

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

export function hasEnded(endsAtMs: number, clock: Clock): boolean {
  const leftMs = endsAtMs - clock.nowMs();
  return leftMs <= 0 || leftMs > LEFT_MS_MAX;
}

/** The letters of a user code, without vowels, so that codes spell no words (RFC 8628 §6.1). */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const USER_CODE_CHARS = 8;
const USER_CODE = new RegExp(`^[${LETTERS}]{${USER_CODE_CHARS}}$`);
/** The largest multiple of the number of letters in a byte. Bytes above would favor some letters. */
const FAIR_BELOW = 256 - (256 % LETTERS.length);

/** Creates the code that a person types: `XXXX-XXXX`. */
export function makeUserCode(random: RandomBytes): string {
  let code = '';
  while (code.length < USER_CODE_CHARS) {
    for (const byte of random(2 * USER_CODE_CHARS)) if (byte < FAIR_BELOW) code += LETTERS[byte % LETTERS.length];
  }
  return `${code.slice(0, 4)}-${code.slice(4, USER_CODE_CHARS)}`;
}

/** Returns the hash under which the store keeps a user code, however a person types it; null if it is no code. */
export function userCodeHash(sha256: Sha256, userCode: string): string | null {
  const letters = userCode.replace(/[-\s]/g, '').toUpperCase();
  return USER_CODE.test(letters) ? sha256(letters, 'hex') : null;
}
