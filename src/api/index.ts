// Puts the HTTP API together: the handlers of the routes, the checks before them, and the access log. table.ts
// describes each route.

import type { Run } from '../calls/run.ts';
import type { Tool } from '../calls/tool.ts';
import type { Config } from '../config/config.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import { createMcp, type Mcp, type McpOptions } from '../mcp/server.ts';
import { type SseRouteOptions, sseRoutes, sseUnavailable } from '../mcp/sse.ts';
import { type McpRouteOptions, mcpRoute } from '../mcp/streamable-http.ts';
import type { SignInRoutes } from '../signin/index.ts';
import { metadataUrl, type ProtectedPath, resourceMetadataRoutes } from '../signin/metadata.ts';
import type { DispatchOptions } from '../web/dispatch.ts';
import type { SignIn } from '../web/problem-response.ts';
import { createRequestChecks, type Handler, type Route } from '../web/router.ts';
import { aboutRoute } from './about.ts';
import { createAccessLog } from './access-log.ts';
import { type ChangesRouteOptions, changesRoute } from './changes.ts';
import { type IntrospectRouteOptions, introspectRoute } from './introspect.ts';
import type { Metrics, Transport } from './metrics/measures.ts';
import { metricsRoute } from './metrics/route.ts';
import { openapiRoute } from './openapi.ts';
import { type OwnKeyRoutesOptions, ownKeyRoutes } from './own-keys.ts';
import { type KeysPageOptions, keysPageRoute, previewRoute } from './pages.ts';
import { type RevokeTokens, revokeRoute } from './revoke.ts';
import { ROUTES, type RouteName, routeNames } from './table.ts';
import { type ToolRouteOptions, toolRoutes } from './tools.ts';
import { type VerifyRouteOptions, verifyRoute } from './verify.ts';

type OptionsOfRoutes = McpRouteOptions &
  SseRouteOptions &
  ToolRouteOptions &
  KeysPageOptions &
  OwnKeyRoutesOptions &
  IntrospectRouteOptions &
  ChangesRouteOptions &
  VerifyRouteOptions;

/** What the routes need, except what is created here for each. */
export interface ApiOptions
  extends Omit<OptionsOfRoutes, 'mcp' | 'checksKey' | 'signIn' | 'eager' | 'publicPath' | 'config'> {
  readonly config: Config;
  readonly tools: readonly Tool[];
  /** What MCP clients are offered. */
  readonly offered: Omit<McpOptions, 'run' | 'listsAll' | 'log'>;
  readonly revokeTokens: RevokeTokens;
  readonly signInRoutes: SignInRoutes;
  readonly address: ServerAddress;
  readonly health: Handler;
  readonly metrics: Metrics | null;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export function createApi(options: ApiOptions): Omit<DispatchOptions, 'instance' | 'bodies'> {
  const { config, address, clock, log } = options;
  const { production, trustProxy, tls, accessLog, basePath } = config;
  const logged = { clock, log, trustProxy, verifyRoute: `${basePath}/verify` };
  const observe = accessLog ? createAccessLog(logged) : undefined;
  return {
    routes: routesOf(options),
    check: createRequestChecks({ ...config, address }),
    server: { production, trustProxy, ownTls: tls !== null, address, observe },
    log,
  };
}

function routesOf(options: ApiOptions): readonly Route[] {
  const { config, address, tools, metrics, signInRoutes, sha256 } = options;
  const { basePath, authorizationServer, metricsToken } = config;
  const { path: publicPath } = address;
  // Without an authorization server there is no challenge: OAuth clients would look for one here.
  const handsOutKeys = config.connect !== null;
  const server = handsOutKeys ? 'this_server' : authorizationServer;
  const scopes = handsOutKeys ? options.keyScopes : config.jwtScopes;
  const signInAt = (path: ProtectedPath): SignIn | null =>
    server === null
      ? null
      : { under: (publicUrl) => ({ metadataUrl: metadataUrl(publicUrl, path), scopes }), handsOutKeys };
  const off: readonly RouteName[] = [
    ...(config.reusePort ? (['sse'] as const) : []),
    ...(config.keysPage === null ? (['keys'] as const) : []),
    ...(handsOutKeys ? [] : (['authorize'] as const)),
    ...(config.device ? [] : (['ask'] as const)),
    ...(metrics !== null && metricsToken !== null ? [] : (['metrics'] as const)),
  ];
  const about = aboutRoute((name) => !off.includes(name));
  const runOver = (transport: Transport): Run => metrics?.run(transport, options.run) ?? options.run;
  function mcpOver(transport: Transport): Mcp {
    const { offered, log } = options;
    const mcp = createMcp({ ...offered, run: runOver(transport), listsAll: config.toolsList === 'all', log });
    return metrics?.mcp(transport, mcp) ?? mcp;
  }
  const mcp = mcpRoute({
    ...options,
    mcp: mcpOver('http'),
    checksKey: ({ method, params }) =>
      method === 'tools/call' && options.offered.tools.get(String(params.name))?.credential === 'api_key',
    signIn: signInAt('/mcp'),
    eager: config.mcpAuth === 'eager',
  });
  const sse = sseRoutes({ ...options, mcp: mcpOver('sse'), publicPath, signIn: signInAt('/sse') });

  const served: Readonly<Record<RouteName, Served>> = {
    about: ['/', ''].map((path) => ({ path: `${basePath}${path}`, get: about })),
    mcp: { post: mcp },
    sse: { get: config.reusePort ? sseUnavailable : sse.open },
    messages: { post: sse.post },
    tools: toolRoutes(`${basePath}/tools/`, tools, {
      ...options,
      run: runOver('rest'),
      signIn: handsOutKeys ? null : signInAt(''), // signing in gives keys, not user tokens
    }),
    openapi: { get: openapiRoute(tools) },
    keys: config.keysPage && { get: keysPageRoute(options) },
    ...(config.keysPage === null ? WITHOUT_PAGE : ownKeyRoutes(options)),
    verify: verifyRoute(options),
    introspect: introspectRoute(options),
    changes: changesRoute(options),
    revoke: revokeRoute(options.revokeTokens),
    ...signInRoutes,
    health: [...healthElsewhere(basePath), { path: basePath + ROUTES.health.path, get: options.health }],
    metrics:
      metrics && metricsToken ? { get: metricsRoute({ token: metricsToken, sha256, text: metrics.text }) } : null,
    preview: { get: previewRoute(options) },
    resource: resourceMetadataRoutes({ publicPath, authorizationServer: server, scopes }),
  };
  return routeNames.flatMap((name): readonly Route[] => {
    const handled = served[name];
    if (handled === null) return [];
    const places = 'map' in handled ? handled : [{ ...handled, path: basePath + ROUTES[name].path }];
    return places.map((place) => ({ ...ROUTES[name], ...place }));
  });
}

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
type Handlers = Pick<Route, 'get' | 'post' | 'any' | 'takes' | 'refuse' | 'missing'>;

const WITHOUT_PAGE = { edit: null, history: null };
