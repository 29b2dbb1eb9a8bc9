// The app: every route with its handler, one line a route.

import type { Clock, RandomBytes } from './clock.ts';
import type { Config } from './config.ts';
import type { Principals } from './guards/principal.ts';
import { hostGuard, originGuard } from './guards/web.ts';
import { createEventStreams } from './http/event-streams.ts';
import type { Exchange } from './http/exchange.ts';
import { forwardedFor, forwardedProto } from './http/forwarded.ts';
import type { Route } from './http/router.ts';
import { createSendBudget } from './http/send-budget.ts';
import { createSendText } from './http/send-text.ts';
import { createInFlight } from './in-flight.ts';
import type { KeyDomain } from './keys/index.ts';
import type { Log } from './log.ts';
import { createMethods } from './mcp/methods.ts';
import type { Resource, ResourceTemplate } from './mcp/resource.ts';
import { aboutRoute } from './routes/about.ts';
import { createAdmission } from './routes/admission.ts';
import { createCallMaker, type NeedsHttps } from './routes/call.ts';
import { createConfirm } from './routes/confirm.ts';
import { createDispatch, type Dispatch } from './routes/dispatch.ts';
import { healthRoute } from './routes/health.ts';
import { mcpRoute } from './routes/mcp.ts';
import { metadataRoutes, metadataUrl, type ProtectedPath } from './routes/metadata.ts';
import { openapiRoute } from './routes/openapi.ts';
import { createSessions } from './routes/sessions.ts';
import { sseRoutes } from './routes/sse.ts';
import { createToolRunner } from './routes/tool-call.ts';
import { toolsRoute } from './routes/tools.ts';
import { previewRoute } from './routes/widgets.ts';
import { toolsByName } from './tools/by-name.ts';
import type { Tool } from './tools/tool.ts';

export interface AppDeps {
  readonly config: Config;
  /** The URL clients see, without a trailing slash. Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
  readonly keyDomain: KeyDomain;
  readonly storeMode: string;
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
  readonly resourceTemplates: readonly ResourceTemplate[];
  readonly principals: Principals;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
}

export interface App extends Dispatch {
  /** Ends each event stream as soon as its calls are done, because the runtime's own stop would wait for it. */
  endStreams(): void;
  /** Resolves when no request is being handled and no tool runs. */
  idle(): Promise<void>;
}

export function createApp(deps: AppDeps): App {
  const { config, publicUrl, keyDomain, log, clock } = deps;
  const { basePath } = config;
  const startedAtMs = clock.monotonicMs();
  const tools = toolsByName(deps.tools);

  const needsHttps: NeedsHttps = ({ secure }) => config.production && !secure;
  const clientAddress = ({ request, peer }: Exchange): string =>
    (config.trustProxy && forwardedFor(request.headers)) || (peer.address(request) ?? 'unknown');
  const newCall = createCallMaker(clientAddress);
  const about = aboutRoute(publicUrl);
  const health = healthRoute({
    storeMode: deps.storeMode,
    storeOk: keyDomain.verifier.feed.probe,
    lagMs: keyDomain.verifier.feed.lagMs,
    sessions: () => sessions.count,
    uptimeMs: () => clock.monotonicMs() - startedAtMs,
  });
  const inFlight = createInFlight();
  const { authorizationServer } = config;
  const publicPath = config.publicUrl === null ? basePath : new URL(config.publicUrl).pathname.replace(/^\/$/, '');
  // Without an authorization server there is no challenge: it would make OAuth clients look for one here.
  const signInAt = (path: ProtectedPath) => () =>
    authorizationServer === null ? null : metadataUrl(publicUrl(), path);
  const sendBudget = createSendBudget(clock, log);
  const sendText = createSendText(sendBudget);
  const confirm = createConfirm(keyDomain.verifier, log);
  const calling = { newCall, needsHttps, runTool: createToolRunner(log, inFlight, confirm), confirm, sendText };
  const callTools = toolsRoute({ ...calling, tools, prefix: `${basePath}/tools/`, metadataUrl: signInAt('') });
  const mcp = {
    ...calling,
    methods: createMethods({ ...deps, tools }),
    streams: createEventStreams(clock, sendBudget),
  };
  const callMcp = mcpRoute({ ...mcp, metadataUrl: signInAt('/mcp'), eager: config.mcpAuth === 'eager' });
  const sessions = createSessions(deps.random);
  const sse = sseRoutes({ ...mcp, sessions, principals: deps.principals, publicPath, metadataUrl: signInAt('/sse') });

  const routes: readonly Route[] = [
    { path: `${basePath}/`, get: about, openToAnyOrigin: true },
    { path: basePath, get: about, openToAnyOrigin: true },
    { path: `${basePath}/tools/*`, ...callTools },
    { path: `${basePath}/mcp`, post: callMcp },
    { path: `${basePath}/sse`, get: sse.open },
    { path: `${basePath}/messages`, post: sse.post },
    { path: `${basePath}/mcp/health`, get: health, openToAnyOrigin: true, anyHost: true },
    { path: `${basePath}/widgets/preview`, get: previewRoute() },
    { path: `${basePath}/openapi.json`, get: openapiRoute(deps.tools, publicUrl), openToAnyOrigin: true },
    ...metadataRoutes({ publicUrl, publicPath, authorizationServer }),
  ];

  const publicPart = (part: 'origin' | 'hostname') => () => new URL(publicUrl())[part];
  const admit = createAdmission({
    checkHost: hostGuard(config.allowedHosts, publicPart('hostname')),
    checkOrigin: originGuard(config.allowedOrigins, publicPart('origin')),
    needsHttps,
  });
  const dispatch = createDispatch({
    routes,
    admit,
    isSecure: (headers) => config.tls !== null || (config.trustProxy && forwardedProto(headers) === 'https'),
    strictTransport: config.production,
    inFlight,
    random: deps.random,
    log,
  });
  return { ...dispatch, endStreams: sessions.drain, idle: inFlight.idle };
}
