// What this door takes of the core, and where it keeps codes.

import type { PersonOptions } from '../../calls/person-requests.ts';
import type { Config } from '../../config/config.ts';
import type { TokenBuckets } from '../../ground/limits/rates.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import type { Signing } from '../../ground/signed-text.ts';
import type { OriginOf } from '../../keys/actor.ts';
import type { Audience } from '../../keys/audience.ts';
import type { Minting, ReadKeyRequest } from '../../keys/minting.ts';
import type { Verifier } from '../../keys/verify.ts';
import type { Database } from '../../store/database.ts';
import type { Log } from '../../watch/log.ts';
import type { CodeStore, FindCode } from './store.ts';

export interface SignInOptions extends PersonOptions {
  /** `connect`: which OAuth clients get keys; `device`: whether programs without a browser may ask for one. */
  readonly config: Config;
  readonly db: Database;
  /** The budgets of unknown keys, which codes share. */
  readonly lookupBudgets: TokenBuckets;
  readonly keys: Minting;
  readonly verifier: Verifier;
  readonly readKeyRequest: ReadKeyRequest;
  readonly audience: Audience;
  readonly originOf: OriginOf;
  /** Returns how to read the secret that signs registrations, and the id of its database. */
  readonly signing: (use: 'client_id') => Signing;
  readonly clock: Clock;
  /** A clock that also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
}

export interface SignInParts extends SignInOptions {
  readonly store: CodeStore;
  readonly findCode: FindCode;
}
