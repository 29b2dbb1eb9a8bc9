// What an owner does with keys: create, list, rotate, revoke, delete, and change name or scopes. Every change is logged.

import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import { LIMITS } from '../limits/index.ts';
import type { Log } from '../log/log.ts';
import type { Usage } from '../uses/usage.ts';
import { type Actor, actorFields, createPersonBudget, type OriginOf } from './actor.ts';
import { type Changes, createChanges } from './changes.ts';
import { type Granted, grantOf, type KeyCeilings } from './grants.ts';
import type { LastUsed } from './last-used.ts';
import { createListOwn, type ListOwn } from './listing.ts';
import { createMinting, type Minting } from './minting.ts';
import type { KeyStore } from './store.ts';

export interface Keys extends Minting, Changes {
  readonly list: ListOwn;
  /** Uses of a key today (UTC), by all processes as far as this one knows. */
  usesToday(keyId: string): number;
}

export interface KeysOptions {
  readonly store: KeyStore;
  readonly lastUsed: LastUsed;
  readonly usage: Pick<Usage, 'quotaOf' | 'usesOf' | 'usesToday'>;
  /** Makes a mutation known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
  readonly keyPrefix: string;
  readonly production: boolean;
  readonly ceilings: KeyCeilings;
}

export function createKeys(options: KeysOptions): Keys {
  const { usage, clock, log, originOf, ceilings } = options;

  /** Who asks for more than that is logged. */
  const granted: Granted = (actor, request) => {
    const grant = grantOf(ceilings, actor.grantable, request);
    if (!grant.ok && grant.error.code === 'scope_not_granted') log.warn('Scope not granted', actorFields(actor));
    return grant;
  };
  const shared = {
    ...options,
    granted,
    originBy: (actor: Actor) => actor.origin ?? originOf('tool', actor, actor.actor),
    misses: createPersonBudget([LIMITS.misses], clock, log),
  };
  return {
    ...createMinting(shared),
    ...createChanges(shared),
    list: createListOwn(options),
    usesToday: usage.usesToday,
  };
}
