// OAuth protected resource metadata (RFC 9728): where clients sign in. One document for each URL that a client may be
// given, because clients refuse a document that names another (§3.3).

import { SERVER_NAME } from '../../ground/server-info.ts';
import { UNCACHED_JSON_HEADERS } from '../../web/headers.ts';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** Paths below PUBLIC_URL: the server as a whole, and the two MCP transports. */
const PROTECTED = ['', '/mcp', '/sse'] as const;
export type ProtectedPath = (typeof PROTECTED)[number];

export interface MetadataOptions {
  /** The URL clients see, without a trailing slash. */
  readonly publicUrl: string;
  /** Its path: empty or `/…`. */
  readonly publicPath: string;
  readonly authorizationServer: string | null;
  readonly scopes: readonly string[];
}

/** The URL of the document for `path`: the well-known part goes between host and path (RFC 9728 §3.1). */
export function metadataUrl(publicUrl: string, path: ProtectedPath): string {
  const { origin, pathname } = new URL(publicUrl + path);
  return `${origin}${WELL_KNOWN}${pathname === '/' ? '' : pathname}`;
}

/** At the root of the host, whatever BASE_PATH is. */
export const metadataRoutes = ({ publicUrl, publicPath, authorizationServer, scopes }: MetadataOptions) =>
  PROTECTED.map((path) => ({
    path: `${WELL_KNOWN}${publicPath}${path}`,
    ...(authorizationServer === null
      ? { missing: { code: 'not_found' } as const }
      : {
          get() {
            const document = {
              resource: publicUrl + path,
              authorization_servers: [authorizationServer],
              ...(scopes.length > 0 && { scopes_supported: scopes }),
              bearer_methods_supported: ['header'],
              resource_name: SERVER_NAME,
            };
            return new Response(JSON.stringify(document), { headers: UNCACHED_JSON_HEADERS });
          },
        }),
  }));
