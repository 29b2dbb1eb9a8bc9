// Children: keys that keys make for their agents (src/keys/README.md, Children). A door: the server works without it. It
// has a table of derived keys, and the grant type of /token that makes them, which is loaded at its first use.

import type { GrantTypes, Redeem } from '../../api/token.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Database } from '../../store/database.ts';
import type { DerivedStore } from '../../store/open.ts';
import type { Delegate, DelegateOptions } from './exchange.ts';
import { CHILD_LOOKUP, createChildStore } from './store.ts';

/** How the store keeps and finds children. */
export const childrenStore: DerivedStore = { lookup: CHILD_LOOKUP, create: createChildStore };

/** The grant type of RFC 8693. */
const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

export type { Delegate } from './exchange.ts';

interface ChildrenOptions extends Omit<DelegateOptions, 'childStore' | 'clock' | 'keyPrefix' | 'production'> {
  readonly config: Pick<DelegateOptions, 'keyPrefix' | 'production'>;
  readonly db: Database;
  /** A clock that also counts while the machine sleeps. */
  readonly ageClock: Clock;
}

export interface Children {
  /** The grant types of /token by which a key makes a child. */
  readonly grantTypes: GrantTypes;
  readonly delegate: Delegate;
}

export function openChildren(core: ChildrenOptions): Children {
  const lazily = atFirstUse('doors/children', import.meta.url);
  const load = lazily(async () => {
    const { createDelegate, createExchangeGrant } = await import('./exchange.ts');
    const { config, ageClock, db } = core;
    const delegate = createDelegate({ ...core, ...config, clock: ageClock, childStore: createChildStore(db) });
    return { delegate, exchange: createExchangeGrant(delegate) };
  });
  const exchange: Redeem = async (form, caller) => (await load()).exchange(form, caller);
  return {
    grantTypes: new Map([[EXCHANGE_GRANT, exchange]]),
    delegate: async (...asked) => (await load()).delegate(...asked),
  };
}
