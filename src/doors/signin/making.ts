// Creates the key that a person has decided on, once, when its code is redeemed. The key is the access token.

import { type Refusal, refused } from '../../api/oauth.ts';
import { ok, type Result } from '../../ground/result.ts';
import type { RandomBytes } from '../../ground/runtime.ts';
import type { Caller, Origin, OriginOf } from '../../keys/actor.ts';
import { type KeyOrder, logCreated, type Minting } from '../../keys/minting.ts';
import type { MadeKey } from '../../keys/record.ts';
import type { Log } from '../../watch/log.ts';
import type { CodeStore } from './store.ts';

const ATTEMPT_BYTES = 16;

/** Creates the random value that distinguishes this request from others that redeem the same code. */
export const makeAttempt = (random: RandomBytes): string => random(ATTEMPT_BYTES).toHex();

export interface MakingOptions {
  readonly store: CodeStore;
  readonly keys: Pick<Minting, 'mint'>;
  readonly originOf: OriginOf;
  readonly random: RandomBytes;
  readonly log: Log;
}

/** The database says no more: one statement decides. */
const NOT_MADE = 'the code was redeemed meanwhile, or its owner is blocked, deleted, or has as many keys as he may';

/**
 * Creates the key. `handed` is the origin of the event that a client got it; null for a device, for which creating it
 * is the event.
 */
type MakeKey = (
  order: KeyOrder,
  hash: string,
  how: 'oauth' | 'device',
  handed: Origin | null,
  caller: Caller,
) => Promise<Result<MadeKey, Refusal>>;

export const createMakeKey =
  ({ store, keys, originOf, random, log }: MakingOptions): MakeKey =>
  async (order, hash, how, handed, caller) => {
    const minted = keys.mint(order, caller);
    const { userId } = order;
    if (!minted.ok) return refused('invalid_grant', 'KEY_SCOPES or KEY_MAX_DAYS was lowered meanwhile', { userId });
    const { record } = minted.value;
    const making = { hash, attempt: makeAttempt(random), record };
    const made = await store.make(making, originOf(how, caller, order.actor), handed);
    if (!made) return refused('invalid_grant', NOT_MADE, { userId });
    logCreated(log, record, { ...caller, ...order });
    return ok(minted.value);
  };
