// GET /keys: the page where people manage their keys. It holds nothing of anybody: it calls the tools with the token of
// whoever uses it.

import { type Config, keysPageUrl } from '../config/config.ts';
import { SECURITY_HEADERS } from '../http/headers.ts';
import type { Handler } from '../http/router.ts';
import { once } from '../lib/memoize.ts';

export interface KeysPageOptions {
  readonly config: Pick<Config, 'jwt' | 'jwtClaims' | 'keyCeilings'>;
  /** The URL clients see, without a trailing slash. Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
}

export function keysPageRoute({ config, publicUrl }: KeysPageOptions): Handler {
  const load = once(async () => (await import('../page/index.ts')).createKeysPage()); // so that no start waits for it
  const { jwt, jwtClaims, keyCeilings } = config;
  return async ({ acceptsCredentials }) => {
    const url = publicUrl();
    const { html, policy } = (await load()).make({
      url,
      page: keysPageUrl(url),
      isSecure: acceptsCredentials,
      mints: jwt.kind === 'secret' || jwt.kind === 'dev-secret',
      issuer: null,
      scopes: keyCeilings.scopes,
      daysMax: keyCeilings.daysMax,
      claims: { owner: jwtClaims.owner, admin: jwtClaims.admin },
    });
    return new Response(html, { headers: { ...PAGE_HEADERS, 'Content-Security-Policy': policy } });
  };
}

const PAGE_HEADERS = {
  ...SECURITY_HEADERS,
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Frame-Options': 'DENY', // what frame-ancestors says, for browsers that don't know it
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};
