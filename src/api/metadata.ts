// Serves the metadata that clients read first: the protected resource metadata (RFC 9728), which says where they sign
// in, and the authorization server metadata (RFC 8414), if this server is one.

import { SERVER_NAME } from '../ground/server-info.ts';
import type { RequestContext } from '../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { json } from './oauth.ts';

const RESOURCE = '/.well-known/oauth-protected-resource';
const SERVER = '/.well-known/oauth-authorization-server';

/** Paths below PUBLIC_URL: the server as a whole, and the two MCP transports. */
const PROTECTED = ['', '/mcp', '/sse'] as const;
export type ProtectedPath = (typeof PROTECTED)[number];

export interface ResourceMetadataOptions {
  /** The path of this server: empty or `/…`. */
  readonly publicPath: string;
  /** Where clients sign in; null: nowhere. */
  readonly authorizationServer: string | 'this_server' | null;
  readonly scopes: readonly string[];
}

/** Returns the URL of the document for `path`. The well-known part goes between host and path (RFC 9728 §3.1). */
export function metadataUrl(publicUrl: string, path: ProtectedPath): string {
  // Keep the client's spelling, which a URL parser would change.
  return (publicUrl + path).replace(/^https?:\/\/[^/]+/, (origin) => origin + RESOURCE);
}

/**
 * Creates the route of a document for each URL that a client may use, because clients refuse a document for another URL
 * (RFC 9728 §3.3). They are at the root of the host, whatever BASE_PATH is.
 */
export const resourceMetadataRoutes = (options: ResourceMetadataOptions) =>
  PROTECTED.map((path) => ({
    path: `${RESOURCE}${options.publicPath}${path}`,
    ...(options.authorizationServer === null
      ? { missing: { code: 'not_found' } as const }
      : { get: ({ publicUrl }: RequestContext) => resourceMetadata(options, publicUrl, path) }),
  }));

function resourceMetadata(
  { authorizationServer, scopes }: ResourceMetadataOptions,
  publicUrl: string,
  path: ProtectedPath,
): Response {
  const document = {
    resource: publicUrl + path,
    authorization_servers: [authorizationServer === 'this_server' ? publicUrl : authorizationServer],
    ...(scopes.length > 0 && { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
    resource_name: SERVER_NAME,
  };
  return new Response(JSON.stringify(document), { headers: UNCACHED_JSON_HEADERS });
}

export interface ServerMetadataOptions {
  readonly publicPath: string;
  /** The scopes that tools and prompts demand of keys. */
  readonly scopes: readonly string[];
  /** Whether /authorize exists. */
  readonly authorizes: boolean;
  /** Whether /register exists. */
  readonly registers: boolean;
  /** Whether a client's id may be the URL of a document. */
  readonly readsDocuments: boolean;
  /** Whether /device_authorization exists. */
  readonly isAsked: boolean;
  /** The grant types of /token. */
  readonly grantTypes: readonly string[];
}

export const serverMetadataRoutes = (options: ServerMetadataOptions) =>
  [...new Set([SERVER, SERVER + options.publicPath])].map((path) => ({
    path,
    get: ({ publicUrl }: RequestContext) => json(200, serverMetadata(options, publicUrl)),
  }));

/**
 * Returns the server's metadata (RFC 8414 §2), without a revocation endpoint: clients that revoke before they sign in
 * again would end the key everywhere.
 */
function serverMetadata(options: ServerMetadataOptions, url: string) {
  const { scopes, authorizes, registers, readsDocuments, isAsked, grantTypes } = options;
  return {
    issuer: url,
    ...(authorizes && { authorization_endpoint: `${url}/authorize` }),
    token_endpoint: `${url}/token`,
    ...(registers && { registration_endpoint: `${url}/register` }),
    ...(isAsked && { device_authorization_endpoint: `${url}/device_authorization` }),
    response_types_supported: authorizes ? ['code'] : [],
    ...(authorizes && { response_modes_supported: ['query'] }),
    grant_types_supported: grantTypes,
    ...(authorizes && { code_challenge_methods_supported: ['S256'] }),
    token_endpoint_auth_methods_supported: ['none'],
    ...(authorizes && { authorization_response_iss_parameter_supported: true }),
    ...(readsDocuments && { client_id_metadata_document_supported: true }),
    ...(scopes.length > 0 && { scopes_supported: scopes }),
  };
}
