// What a client gets for a code: the key itself, as an access token.

import { joinScopes } from '../ground/text.ts';
import type { KeyIdentity } from '../keys/verify.ts';

/** RFC 6749 §5.1. */
export interface AccessToken {
  readonly access_token: string;
  readonly token_type: 'Bearer';
  readonly scope: string;
  /** Only of a key that expires. */
  readonly expires_in?: number;
}

export function accessToken(
  key: string,
  { scopes, expiresAtMs }: Pick<KeyIdentity, 'scopes' | 'expiresAtMs'>,
  nowMs: number,
): AccessToken {
  const left = expiresAtMs === null ? null : Math.max(0, Math.floor((expiresAtMs - nowMs) / 1000));
  return {
    access_token: key,
    token_type: 'Bearer',
    scope: joinScopes(scopes),
    ...(left !== null && { expires_in: left }),
  };
}
