// A certified OpenID provider on loopback (oidc-provider), where anybody signs in by typing a name: for the page /keys
// and for MCP clients, whose access tokens are JWTs for the resource that was asked for.

import { createServer } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';

const TTL_S = 3600;

/**
 * `scopes`: those of the resource; clients that ask for none of them or of OpenID's are refused. `registers`: clients
 * register themselves, too.
 */
export async function createOpenidProvider({ scopes = '', registers = false } = {}) {
  // @ts-expect-error: the package has no types
  const { default: Provider } = await quietly(() => import('oidc-provider'));
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'first' };
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const url = `http://localhost:${address.port}`; // another host than the page's: cookies know no ports

  return {
    /** The issuer identifier. */
    url,
    /** Registers a public client, and begins to respond. */
    async begin(clientId: string, redirectUri: string) {
      const client = {
        client_id: clientId,
        redirect_uris: [redirectUri],
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code'],
        response_types: ['code'],
        application_type: 'native', // with plain HTTP on loopback
      };
      const provider = await quietly(
        async () =>
          new Provider(url, {
            clients: [client],
            jwks: { keys: [jwk] },
            cookies: { keys: ['for tests'] },
            clientBasedCORS: () => true,
            ttl: { Interaction: TTL_S, Session: TTL_S, Grant: TTL_S, AccessToken: TTL_S, IdToken: TTL_S },
            findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub }) }),
            scopes: ['openid', 'offline_access', ...scopes.split(' ').filter(Boolean)],
            clientDefaults: { token_endpoint_auth_method: 'none' },
            features: {
              registration: { enabled: registers },
              resourceIndicators: {
                enabled: true,
                getResourceServerInfo: (_: unknown, audience: string) => ({
                  scope: scopes,
                  audience,
                  accessTokenFormat: 'jwt',
                  accessTokenTTL: TTL_S,
                }),
              },
            },
          }),
      );
      server.on('request', provider.callback());
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Runs `make` without its warnings that this is no production. */
async function quietly<T>(make: () => Promise<T>): Promise<T> {
  const { warn, info } = console;
  console.warn = console.info = () => {};
  try {
    return await make();
  } finally {
    Object.assign(console, { warn, info });
  }
}
