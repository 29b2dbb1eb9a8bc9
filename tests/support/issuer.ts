// A real token issuer on loopback: metadata, a key set that can be changed, and tokens signed with any of its keys.

import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

export interface IssuerKey {
  readonly alg: string;
  readonly kid: string | undefined;
  readonly privateKey: CryptoKey;
  /** As it is published. */
  readonly jwk: JWK;
}

export interface Issuer extends AsyncDisposable {
  /** The issuer identifier. */
  readonly url: string;
  readonly jwksUrl: string;
  /** What the key set holds; tests may change it. */
  keys: IssuerKey[];
  /** Responses that replace the usual ones, by path. */
  readonly overrides: Map<string, (request: Request) => Response | Promise<Response>>;
  /** How often a path was asked for. */
  hits(path: string): number;
  /** A token of `sub`; `claims` and `header` replace what it has by default; undefined leaves one out. */
  token(
    claims: Record<string, unknown>,
    options?: { key?: IssuerKey; header?: Record<string, unknown> },
  ): Promise<string>;
}

export const JWKS_PATH = '/jwks';

export async function createKey(alg = 'ES256', kid?: string): Promise<IssuerKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), alg, use: 'sig', ...(kid !== undefined && { kid }) };
  return { alg, kid, privateKey, jwk };
}

/**
 * `path` belongs to the issuer identifier; `metadataAt` is where its metadata is served, by default RFC 8414's place.
 */
export async function createIssuer(
  options: { path?: string; metadataAt?: string; metadata?: Record<string, unknown> } = {},
): Promise<Issuer> {
  const { path = '', metadataAt = `/.well-known/oauth-authorization-server${path}` } = options;
  const counts = new Map<string, number>();
  const overrides: Issuer['overrides'] = new Map();

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0, // a test may hold a response up for as long as its machine takes
    fetch(request) {
      const { pathname } = new URL(request.url);
      counts.set(pathname, (counts.get(pathname) ?? 0) + 1);
      const override = overrides.get(pathname);
      if (override !== undefined) return override(request);
      if (pathname === JWKS_PATH) return Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) });
      if (pathname === metadataAt) {
        return Response.json({ issuer: issuer.url, jwks_uri: issuer.jwksUrl, ...options.metadata });
      }
      return new Response('nothing here', { status: 404 });
    },
  });
  const origin = `http://127.0.0.1:${server.port}`;

  const issuer: Issuer = {
    url: origin + path,
    jwksUrl: origin + JWKS_PATH,
    keys: [await createKey('ES256', 'first')],
    overrides,
    hits: (pathname) => counts.get(pathname) ?? 0,
    async token(claims, { key = issuer.keys[0], header = {} } = {}) {
      if (key === undefined) throw new Error('no key to sign with');
      return new SignJWT({ iss: issuer.url, ...claims })
        .setProtectedHeader({ alg: key.alg, ...(key.kid !== undefined && { kid: key.kid }), ...header })
        .sign(key.privateKey);
    },
    async [Symbol.asyncDispose]() {
      await server.stop(true);
    },
  };
  return issuer;
}
