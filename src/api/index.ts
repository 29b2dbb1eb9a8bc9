// Puts the routes of the HTTP API together: their handlers, and what watches these. table.ts describes each route.

import type { Guards } from '../calls/guards.ts';
import type { Identify } from '../calls/identify.ts';
import type { Operation } from '../calls/operation.ts';
import type { Recheck } from '../calls/proof.ts';
import type { Run } from '../calls/run.ts';
import type { Config } from '../config/config.ts';
import { atFirstUse } from '../ground/first-use.ts';
import { chain } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import type { RequestMessage } from '../mcp/message.ts';
import { calledIn, createMethods, type Offered } from '../mcp/methods.ts';
import type { RequestStates } from '../mcp/request-states.ts';
import { createMcp, type Mcp } from '../mcp/server.ts';
import { mcpRoute } from '../mcp/streamable-http.ts';
import type { Log } from '../watch/log.ts';
import type { SignIn } from '../web/problem-response.ts';
import type { Handler, Handlers, Route } from '../web/router.ts';
import type { Streams } from '../web/stream.ts';
import { aboutRoute } from './about.ts';
import type { Observed, Transport } from './observer.ts';
import { metadataUrl, type ProtectedPath, resourceMetadataRoutes } from './resource-metadata.ts';
import { type RevokeSecrets, revokeRoute } from './revoke.ts';
import { ROUTES, type RouteFacts, type RouteName, routeNames } from './table.ts';
import { type GrantTypes, tokenRoutes } from './token.ts';
import { toolRoutes } from './tools.ts';
import { verifyRoute } from './verify.ts';

interface ApiOptions {
  readonly config: Config;
  readonly address: ServerAddress;
  readonly offered: Offered;
  readonly requestStates: RequestStates;
  readonly run: Run;
  readonly recheck: Recheck;
  readonly guards: Guards;
  readonly identify: Identify;
  readonly streams: Streams;
  readonly revokeSecrets: RevokeSecrets;
  readonly grantTypes: GrantTypes;
  readonly authorizationServer: ((url: string) => object) | null;
  readonly handsOutKeys: boolean;
  readonly keyScopes: readonly string[];
  readonly health: Handler;
  readonly observed: Observed;
  readonly doors: (core: CoreParts) => DoorRoutes;
  readonly clock: Clock;
  readonly log: Log;
}

/** What the core gives the routes of a door. */
interface CoreParts {
  mcpOver(transport: Transport): Mcp;
  /** Returns where OAuth clients sign in for a path; null: they are never challenged. */
  signInAt(path: ProtectedPath): SignIn | null;
  /** Returns what a request calls; undefined if it calls nothing that is there. */
  calledBy(request: RequestMessage): Operation | undefined;
}

/** Routes by their names in the table. One that is missing or null is off. */
export type DoorRoutes = Partial<Readonly<Record<RouteName, Served>>>;

export function createRoutes(options: ApiOptions): readonly Route[] {
  const { config, address, offered, requestStates, recheck, guards, identify, streams, handsOutKeys } = options;
  const { revokeSecrets, grantTypes, authorizationServer, keyScopes, health, observed, doors, clock, log } = options;
  const { basePath, production, trustProxy, revocationLagMaxMs } = config;
  const { path: publicPath } = address;
  const tools = [...offered.tools.values()];
  // Without an authorization server there is no challenge: OAuth clients would look for one here.
  const server = handsOutKeys ? 'this_server' : config.authorizationServer;
  const scopes = handsOutKeys ? keyScopes : config.jwtScopes;
  const signInAt = (path: ProtectedPath): SignIn | null =>
    server === null ? null : { metadataUrl: (publicUrl) => metadataUrl(publicUrl, path), scopes, handsOutKeys };
  const methods = createMethods(offered, config.toolsList === 'all', clock, log);
  const calledBy: CoreParts['calledBy'] = (request) => calledIn(offered, request);
  const mcpOver = (transport: Transport): Mcp =>
    observed.mcp(transport, createMcp({ methods, calledBy, requestStates, run: observed.run(transport, options.run) }));
  const mcp = mcpRoute({
    mcp: mcpOver('http'),
    calledBy,
    recheck,
    streams,
    identify,
    signIn: signInAt('/mcp'),
    eager: config.mcpAuth === 'eager',
    log,
  });
  const lazily = atFirstUse('api', import.meta.url);
  const openapi = lazily(async () => (await import('./openapi.ts')).openapiRoute(tools));
  const ofWidgets = atFirstUse('pages/widgets', new URL('../pages/widgets/preview.ts', import.meta.url).href);
  const preview = ofWidgets(async () => {
    const { previewRoute } = await import('../pages/widgets/preview.ts');
    return previewRoute({ production, revocationLagMaxMs, tools, resources: offered.resources });
  });
  const served: DoorRoutes = {
    mcp: { post: mcp },
    tools: toolRoutes(`${basePath}/tools/`, tools, {
      run: observed.run('rest', options.run),
      streams,
      signIn: handsOutKeys ? null : signInAt(''), // signing in gives keys, not user tokens
      log,
    }),
    openapi: { get: (context) => chain(openapi(), (get) => get(context)) },
    verify: verifyRoute({ guards, recheck, trustProxy, log }),
    revoke: revokeRoute(revokeSecrets),
    ...tokenRoutes({ grantTypes, authorizationServer, publicPath, keyScopes, log }),
    health: [...healthElsewhere(basePath), { path: basePath + ROUTES.health.path, get: health }],
    preview: { get: (context) => chain(preview(), (get) => get(context)) },
    resourceMetadata: resourceMetadataRoutes({ publicPath, authorizationServer: server, scopes }),
    ...doors({ mcpOver, signInAt, calledBy }),
  };
  const about = aboutRoute((name) => isListed(served[name]));
  const all: DoorRoutes = { about: ['/', ''].map((path) => ({ path: `${basePath}${path}`, get: about })), ...served };
  return routeNames.flatMap((name): readonly Route[] => {
    const handled = all[name] ?? whenOff(ROUTES[name]);
    const places = 'map' in handled ? handled : [{ ...handled, path: basePath + ROUTES[name].path }];
    return places.map((place) => ({ ...ROUTES[name], ...place }));
  });
}

/** Returns how a route is served that is off. Of one that any page may read, any page may read that it isn't there. */
const whenOff = ({ openToAnyOrigin }: RouteFacts) =>
  openToAnyOrigin === true ? ({ missing: { code: 'not_found' } } as const) : [];

/** Returns whether `GET /` lists a route. */
const isListed = (handled: Served | undefined): boolean =>
  handled != null && ('map' in handled || handled.isUnlisted !== true);

/** Returns other paths that probes try for the health check. The response names the right one. */
function healthElsewhere(basePath: string) {
  const missing = { code: 'not_found', healthAt: basePath + ROUTES.health.path } as const;
  const paths = ['/health', '/healthz', '/ready', '/readyz', '/live', '/livez', ROUTES.health.path];
  return [...paths, ...paths.map((path) => basePath + path)]
    .filter((path) => path !== basePath)
    .map((path) => ({ path, missing }));
}

/** A route that `GET /` may list. */
interface Listable extends Handlers {
  readonly isUnlisted?: boolean;
}

/** The handlers of a route, at the path in the table or at others; null if it is off. */
export type Served = Listable | readonly (Listable & { readonly path: string })[] | null;
