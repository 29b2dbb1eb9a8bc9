// What is kept of keys that are handed to OAuth clients (connect/): which codes were redeemed, and the secrets that codes
// are sealed with. src/store implements the interface.

import type { Origin } from './actor.ts';
import type { StoreResult } from './store.ts';

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
  /** The secret of an hour since the Unix epoch, 32 bytes as hex; made, if it is to be. Null: there is none. */
  codeSecret(hour: number, make: boolean): StoreResult<string | null>;
  /** Overwrites and removes the secrets of this hour and those before. */
  forgetCodeSecrets(upToHour: number): StoreResult<void>;
}
