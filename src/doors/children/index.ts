// Children: keys that keys make for their agents (src/keys/README.md, Children). A door: the server works without it. It
// has a table of derived keys, and the grant type of /token that makes them, which is loaded at its first use.

import type { GrantTypes, Redeem } from '../../api/token.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { Database } from '../../store/database.ts';
import type { DerivedStore } from '../../store/open.ts';
import type { ExchangeGrantOptions } from './exchange.ts';
import { CHILD_LOOKUP, createChildStore } from './store.ts';

/** How the store keeps and finds children. */
export const childrenStore: DerivedStore = { lookup: CHILD_LOOKUP, create: createChildStore };

/** The grant type of RFC 8693. */
const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

interface ChildrenOptions extends Omit<ExchangeGrantOptions, 'childStore'> {
  readonly db: Database;
}

/** Returns the grant types of /token by which a key makes a child. */
export function childrenGrants(options: ChildrenOptions): GrantTypes {
  const load = atFirstUse('doors/children', import.meta.url, async () => {
    const { createExchangeGrant } = await import('./exchange.ts');
    return createExchangeGrant({ ...options, childStore: createChildStore(options.db) });
  });
  const exchange: Redeem = async (form, caller) => (await load())(form, caller);
  return new Map([[EXCHANGE_GRANT, exchange]]);
}
