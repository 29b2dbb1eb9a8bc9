// Children: keys that keys make for their agents (src/keys/README.md, Children). A door: the server works without it. It
// has a table of derived keys, and the grant types of /token that make them, which are loaded at their first use.

import type { GrantTypes, Redeem } from '../../api/token.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { GrantOptions } from './exchange.ts';

export { CHILD_LOOKUP, createChildStore } from './store.ts';

/** Returns the grant types by which whoever presents a key, or a token that acts as one, makes a child of it. */
export function openChildren(core: GrantOptions): GrantTypes {
  const lazily = atFirstUse('doors/children', import.meta.url);
  const load = lazily(async () => (await import('./exchange.ts')).createGrants(core));
  const grant =
    (name: 'exchange' | 'assertion'): Redeem =>
    async (form, caller) =>
      (await load())[name](form, caller);
  return new Map([
    ['urn:ietf:params:oauth:grant-type:token-exchange', grant('exchange')],
    ['urn:ietf:params:oauth:grant-type:jwt-bearer', grant('assertion')],
  ]);
}
