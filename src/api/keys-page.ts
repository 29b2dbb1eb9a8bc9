// GET /keys: the page where people manage their keys. It holds no data of anybody: it calls the tools with its user's
// token.

import type { Config } from '../config/config.ts';
import { once } from '../ground/cache.ts';
import { keysPageUrl } from '../ground/urls.ts';
import type { PageIssuer, SignInEndpoints } from '../pages/keys/index.ts';
import { refusedWithin } from '../pages/widgets/index.ts';
import { PAGE_HEADERS } from '../web/headers.ts';
import type { Handler } from '../web/router.ts';

export interface KeysPageOptions {
  readonly config: Pick<
    Config,
    'jwtAudience' | 'jwtClaims' | 'keyCeilings' | 'keysPage' | 'device' | 'revocationLagMaxMs'
  >;
  readonly publicUrl: () => string;
  /** Resolves to null while the issuer is out of reach. Null: people sign in with a link, or paste a token. */
  readonly findSignIn: (() => Promise<SignInEndpoints | null>) | null;
  /** The scopes that tools and prompts ask keys for. */
  readonly keyScopes: readonly string[];
  /** What begins the command that makes links that sign in; null: there is none. */
  readonly mints: () => string | null;
}

export function keysPageRoute(options: KeysPageOptions): Handler {
  const { config, publicUrl, findSignIn, keyScopes, mints } = options;
  const load = once(async () => (await import('../pages/keys/index.ts')).createKeysPage()); // at first use
  const { jwtClaims, keyCeilings, revocationLagMaxMs } = config;
  return async ({ acceptsCredentials }) => {
    const url = publicUrl();
    const { html, policy } = (await load())({
      url,
      page: new URL(keysPageUrl(url)).href,
      isSecure: acceptsCredentials,
      issuer: await pageIssuer(config, url, findSignIn),
      mints: mints(),
      ownerClaim: jwtClaims.owner,
      scopeClaim: jwtClaims.scope,
      asks: config.device,
      admin: jwtClaims.admin,
      scopes: keyCeilings.scopes,
      offered: keyScopes,
      daysMax: keyCeilings.daysMax,
      refused: refusedWithin(revocationLagMaxMs),
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
