// GET /keys: the page where people manage their keys. It holds no data of anybody: it calls the tools with its user's
// token.

import type { Config } from '../config/config.ts';
import { PAGE_HEADERS } from '../http/headers.ts';
import type { Handler } from '../http/router.ts';
import { once } from '../lib/memoize.ts';
import { keysPageUrl } from '../lib/urls.ts';
import type { PageIssuer, SignInEndpoints } from '../page/index.ts';

export interface KeysPageOptions {
  readonly config: Pick<Config, 'jwt' | 'jwtAudience' | 'jwtClaims' | 'keyCeilings' | 'keysPage'>;
  readonly publicUrl: () => string;
  /** Resolves to null while the issuer is out of reach. Null: people sign in with a link, or paste a token. */
  readonly findSignIn: (() => Promise<SignInEndpoints | null>) | null;
}

export function keysPageRoute({ config, publicUrl, findSignIn }: KeysPageOptions): Handler {
  const load = once(async () => (await import('../page/index.ts')).createKeysPage()); // at first use
  const { jwt, jwtClaims, keyCeilings } = config;
  return async ({ acceptsCredentials }) => {
    const url = publicUrl();
    const setup = {
      url,
      page: new URL(keysPageUrl(url)).href,
      isSecure: acceptsCredentials,
      issuer: await pageIssuer(config, url, findSignIn),
      ownerClaim: jwtClaims.owner,
      admin: jwtClaims.admin,
    };
    const { html, policy } = (await load())(setup, {
      mints: jwt.kind === 'secret' || jwt.kind === 'dev-secret',
      ...keyCeilings,
    });
    return new Response(html, { headers: { ...PAGE_HEADERS, 'Content-Security-Policy': policy } });
  };
}

async function pageIssuer(
  { keysPage, jwtAudience }: KeysPageOptions['config'],
  publicUrl: string,
  findSignIn: KeysPageOptions['findSignIn'],
): Promise<PageIssuer | null> {
  const signIn = keysPage?.signIn ?? null;
  if (signIn === null || findSignIn === null) return null;
  const { issuer, clientId, scope } = signIn;
  const resource = jwtAudience ?? publicUrl;
  return { name: new URL(issuer).host, issuer, clientId, scope, resource, endpoints: await findSignIn() };
}
