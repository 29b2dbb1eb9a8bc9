// Puts the HTTP API together: the handlers of the routes, the checks before them, and the access log. table.ts
// describes each route.

import type { Tool } from '../calls/tool.ts';
import type { Config } from '../config/config.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import { createMcp, type Mcp, type McpOptions } from '../mcp/server.ts';
import { type McpRouteOptions, mcpRoute } from '../mcp/streamable-http.ts';
import type { DispatchOptions } from '../web/dispatch.ts';
import type { SignIn } from '../web/problem-response.ts';
import { createRequestChecks, type Handler, type Route } from '../web/router.ts';
import { aboutRoute } from './about.ts';
import { createAccessLog } from './access-log.ts';
import { metadataUrl, type ProtectedPath, resourceMetadataRoutes } from './metadata.ts';
import { type Observed, type Observer, observing, type Transport } from './observer.ts';
import { openapiRoute } from './openapi.ts';
import { type PreviewOptions, previewRoute } from './preview.ts';
import { type RevokeTokens, revokeRoute } from './revoke.ts';
import { ROUTES, type RouteName, routeNames } from './table.ts';
import { type TokenOptions, tokenRoutes } from './token.ts';
import { type ToolRouteOptions, toolRoutes } from './tools.ts';
import { type VerifyRouteOptions, verifyRoute } from './verify.ts';

type OptionsOfRoutes = McpRouteOptions & ToolRouteOptions & PreviewOptions & VerifyRouteOptions & TokenOptions;

/** What the routes need, except what is created here for each. */
export interface ApiOptions
  extends Omit<OptionsOfRoutes, 'mcp' | 'checksKey' | 'signIn' | 'eager' | 'publicPath' | 'config'> {
  readonly config: Config;
  readonly tools: readonly Tool[];
  /** What MCP clients are offered. */
  readonly offered: Omit<McpOptions, 'run' | 'listsAll' | 'log'>;
  readonly revokeTokens: RevokeTokens;
  /** Whether OAuth clients get keys here. */
  readonly handsOutKeys: boolean;
  readonly address: ServerAddress;
  readonly health: Handler;
  /** What watches requests and calls, besides the access log. */
  readonly observers: readonly Observer[];
  /** Returns the routes of doors. */
  readonly doors: (core: CoreParts) => DoorRoutes;
  /** The scopes that tools and prompts demand of keys. */
  readonly keyScopes: readonly string[];
  readonly clock: Clock;
  readonly sha256: Sha256;
}

/** What the core gives the routes of a door. */
export interface CoreParts {
  mcpOver(transport: Transport): Mcp;
  /** Returns where OAuth clients sign in for a path; null: they are never challenged. */
  signInAt(path: ProtectedPath): SignIn | null;
}

/** Routes by their names in the table. One that is missing or null is off. */
export type DoorRoutes = Partial<Readonly<Record<RouteName, Served>>>;

export function createApi(options: ApiOptions): Omit<DispatchOptions, 'instance' | 'bodies'> {
  const { config, address, clock, log } = options;
  const { production, trustProxy, tls, accessLog, basePath } = config;
  const logged = { clock, log, trustProxy, verifyRoute: `${basePath}/verify` };
  const observed = observing([...(accessLog ? [{ request: createAccessLog(logged) }] : []), ...options.observers]);
  return {
    routes: routesOf(options, observed),
    check: createRequestChecks({ ...config, address }),
    server: { production, trustProxy, ownTls: tls !== null, address, observe: observed.request },
    log,
  };
}

function routesOf(options: ApiOptions, observed: Observed): readonly Route[] {
  const { config, address, tools, handsOutKeys } = options;
  const { basePath, authorizationServer } = config;
  const { path: publicPath } = address;
  // Without an authorization server there is no challenge: OAuth clients would look for one here.
  const server = handsOutKeys ? 'this_server' : authorizationServer;
  const scopes = handsOutKeys ? options.keyScopes : config.jwtScopes;
  const signInAt = (path: ProtectedPath): SignIn | null =>
    server === null
      ? null
      : { under: (publicUrl) => ({ metadataUrl: metadataUrl(publicUrl, path), scopes }), handsOutKeys };
  function mcpOver(transport: Transport): Mcp {
    const { offered, log } = options;
    const run = observed.run(transport, options.run);
    return observed.mcp(transport, createMcp({ ...offered, run, listsAll: config.toolsList === 'all', log }));
  }
  const mcp = mcpRoute({
    ...options,
    mcp: mcpOver('http'),
    checksKey: ({ method, params }) =>
      method === 'tools/call' && options.offered.tools.get(String(params.name))?.credential === 'api_key',
    signIn: signInAt('/mcp'),
    eager: config.mcpAuth === 'eager',
  });
  const served: DoorRoutes = {
    mcp: { post: mcp },
    tools: toolRoutes(`${basePath}/tools/`, tools, {
      ...options,
      run: observed.run('rest', options.run),
      signIn: handsOutKeys ? null : signInAt(''), // signing in gives keys, not user tokens
    }),
    openapi: { get: openapiRoute(tools) },
    verify: verifyRoute(options),
    revoke: revokeRoute(options.revokeTokens),
    ...tokenRoutes({ ...options, publicPath }),
    health: [...healthElsewhere(basePath), { path: basePath + ROUTES.health.path, get: options.health }],
    preview: { get: previewRoute(options) },
    resource: resourceMetadataRoutes({ publicPath, authorizationServer: server, scopes }),
    ...options.doors({ mcpOver, signInAt }),
  };
  const about = aboutRoute((name) => isListed(served[name]));
  const all: DoorRoutes = { about: ['/', ''].map((path) => ({ path: `${basePath}${path}`, get: about })), ...served };
  return routeNames.flatMap((name): readonly Route[] => {
    const handled = all[name] ?? [];
    const places = 'map' in handled ? handled : [{ ...handled, path: basePath + ROUTES[name].path }];
    return places.map((place) => ({ ...ROUTES[name], ...place }));
  });
}

/** Returns whether `GET /` lists a route. */
const isListed = (handled: Served | undefined): boolean =>
  handled != null && ('map' in handled || handled.isUnlisted !== true);

/**
 * Returns other paths that probes try for the health check, with and without BASE_PATH. The response names the right
 * one.
 */
function healthElsewhere(basePath: string) {
  const missing = { code: 'not_found', healthAt: basePath + ROUTES.health.path } as const;
  const paths = ['/health', '/healthz', '/ready', '/readyz', '/live', '/livez', ROUTES.health.path];
  return [...paths, ...paths.map((path) => basePath + path)]
    .filter((path) => path !== basePath)
    .map((path) => ({ path, missing }));
}

/** The handlers of a route, at the path in the table or at others; null if it is off. */
export type Served = Handlers | readonly (Handlers & { readonly path: string })[] | null;
type Handlers = Pick<Route, 'get' | 'post' | 'any' | 'takes' | 'refuse' | 'missing'> & {
  /** `GET /` doesn't list it. */
  readonly isUnlisted?: boolean;
};
