// Finds who a request comes from, by the valid credentials it carries, to bind a session to them. Never denies.

import type { Credentials } from '../http/credentials.ts';
import { presentedKey, type VerifyKey } from './api-key.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/** The subjects behind the credentials; empty when none is valid, or when that can't be known now. */
export type Principals = (credentials: Credentials, source: () => string) => Promise<readonly string[]>;

export function createPrincipals(verifyUserJwt: VerifyUserJwt, verifyKey: VerifyKey): Principals {
  return async (credentials, source) => {
    const { bearer } = credentials;
    const key = presentedKey(credentials);
    const verified = [
      ...(bearer !== null ? [await verifyUserJwt(bearer)] : []),
      ...(key !== null ? [await verifyKey(key, source)] : []),
    ];
    return verified.flatMap((result) => (result.ok ? [result.value.subject] : []));
  };
}
