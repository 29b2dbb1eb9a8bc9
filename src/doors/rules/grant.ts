// The grant type `jwt-bearer` (RFC 7523 §2.1): a workload whose token a rule lets in gets a child of the rule's key. It is
// for programs that want a token response; others send their token itself.

import { parameter, refused } from '../../api/oauth.ts';
import type { GrantTypes, Redeem } from '../../api/token.ts';
import { splitScopes } from '../../ground/text.ts';
import type { Caller } from '../../keys/actor.ts';

/** Makes a child of what was presented. `scopes` chooses among those that may be handed on. */
type Delegate = (
  presented: { readonly token: string; readonly isJwt: boolean },
  form: URLSearchParams,
  scopes: (held: readonly string[]) => readonly string[],
  caller: Caller,
) => ReturnType<Redeem>;

/** Returns the grant type. Clients ask for all scopes that they read in the metadata, so what isn't held is left out. */
export function workloadGrants(delegate: Delegate): GrantTypes {
  const redeem: Redeem = async (form, caller) => {
    const token = parameter(form, 'assertion');
    if (token === null) return refused('invalid_request', 'no assertion');
    const asked = form.get('scope');
    const chosen = asked === null ? null : new Set(splitScopes(asked));
    const presented = { token, isJwt: true };
    return delegate(presented, form, (held) => held.filter((scope) => chosen?.has(scope) ?? true), caller);
  };
  return new Map([['urn:ietf:params:oauth:grant-type:jwt-bearer', redeem]]);
}
