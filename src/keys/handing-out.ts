// What is kept of keys that are handed to OAuth clients (connect/): which codes were redeemed, and the secrets that codes
// are sealed with. src/store implements the interface.

import { MS_PER_HOUR } from '../lib/duration.ts';
import type { StoreResult } from '../problem.ts';
import type { Origin } from './actor.ts';

/** Codes are sealed with the secret of the hour in which they are made, since the Unix epoch. */
export const hourAt = (ms: number): number => Math.floor(ms / MS_PER_HOUR);

/** The last hour whose secret no code needs any more: codes end a minute after their hour. */
export const endedHourAt = (nowMs: number): number => hourAt(nowMs) - 2;

/** A code for which a key is handed out. */
export interface Redemption {
  /** Of the code. */
  readonly number: string;
  /** Of this one try; no two have the same. */
  readonly attempt: string;
  readonly keyId: string;
  /** Of the secret that is handed out. */
  readonly fingerprint: string;
}

export interface HandingOutStore {
  /**
   * Notes that an active key is handed out for a code, and leaves an event with the origin. False: the code was redeemed
   * before, by whichever process, or there is no such key.
   */
  redeem(redemption: Redemption, origin: Origin): StoreResult<boolean>;
  /** The secret of an hour, 32 bytes as hex, the same for all processes; made unless there is one. */
  makeCodeSecret(hour: number): StoreResult<string>;
  /** Null: there is none. */
  codeSecret(hour: number): StoreResult<string | null>;
}
