// Serves the metadata that clients read first: the protected resource metadata (RFC 9728), which says where they sign in.
// token.ts has the authorization server's.

import { OWN_PATHS } from '../ground/server-address.ts';
import { SERVER_NAME } from '../ground/server-info.ts';
import type { RequestContext } from '../web/context.ts';
import { json } from '../web/headers.ts';
import { ROUTES } from './table.ts';

const { path: WELL_KNOWN } = ROUTES.resourceMetadata;

/** Where a client that signs in connects. */
export type ProtectedPath = (typeof OWN_PATHS)[number];

interface ResourceMetadataOptions {
  /** The path of this server: empty or `/…`. */
  readonly publicPath: string;
  /** Where clients sign in; null: nowhere. */
  readonly authorizationServer: string | 'this_server' | null;
  readonly scopes: readonly string[];
}

/** Returns the URL of the document for `path`. The well-known part goes between host and path (RFC 9728 §3.1). */
export function metadataUrl(publicUrl: string, path: ProtectedPath): string {
  // Keep the client's spelling, which a URL parser would change.
  return (publicUrl + path).replace(/^https?:\/\/[^/]+/, (origin) => origin + WELL_KNOWN);
}

/**
 * Creates the route of a document for each URL that a client may use, because clients refuse a document for another URL
 * (RFC 9728 §3.3). They are at the root of the host, whatever BASE_PATH is.
 */
export function resourceMetadataRoutes({ publicPath, authorizationServer, scopes }: ResourceMetadataOptions) {
  const document = (publicUrl: string, path: ProtectedPath) => ({
    resource: publicUrl + path,
    authorization_servers: [authorizationServer === 'this_server' ? publicUrl : authorizationServer],
    ...(scopes.length > 0 && { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
    resource_name: SERVER_NAME,
  });
  return OWN_PATHS.map((path) => ({
    path: `${WELL_KNOWN}${publicPath}${path}`,
    ...(authorizationServer === null
      ? { missing: { code: 'not_found' } as const }
      : { get: ({ publicUrl }: RequestContext) => json(200, document(publicUrl, path)) }),
  }));
}
