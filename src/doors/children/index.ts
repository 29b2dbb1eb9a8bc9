// Children: keys that keys make for their agents (src/keys/README.md, Children). A door: the server works without it. It
// has a table of derived keys, and the grant type of /token that makes them, which is loaded at its first use.

import type { Redeem } from '../../api/token.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { Delegate, DelegateOptions } from './exchange.ts';

export { CHILD_LOOKUP, createChildStore } from './store.ts';

/** The grant type of RFC 8693. */
const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

export function openChildren(core: DelegateOptions) {
  const lazily = atFirstUse('doors/children', import.meta.url);
  const load = lazily(async () => {
    const { createDelegate, createExchangeGrant } = await import('./exchange.ts');
    const delegate = createDelegate(core);
    return { delegate, exchange: createExchangeGrant(delegate) };
  });
  const exchange: Redeem = async (form, caller) => (await load()).exchange(form, caller);
  const delegate: Delegate = async (...asked) => (await load()).delegate(...asked);
  return {
    /** The grant types of /token by which a key makes a child. */
    grantTypes: new Map([[EXCHANGE_GRANT, exchange]]),
    delegate,
  };
}
