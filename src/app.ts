// The app: every route with its handler, one line a route.

import type { Config } from './config/config.ts';
import { createPrincipals, type Principals } from './guards/subjects.ts';
import type { VerifyUserJwt } from './guards/user-jwt.ts';
import { createAdmission } from './http/checks.ts';
import type { Exchange, NeedsHttps } from './http/context.ts';
import { createDispatch, type Dispatch } from './http/dispatch.ts';
import { forwardedFor, forwardedProto } from './http/forwarded.ts';
import { hostGuard, originGuard } from './http/host-origin.ts';
import { createEventStreams } from './http/keep-alive.ts';
import type { Route } from './http/router.ts';
import { createSendBudget } from './http/send-budget.ts';
import { createSendText } from './http/send-text.ts';
import { userJwtVerifier } from './jwt/index.ts';
import { createKeyDomain, type KeyDomain } from './keys/index.ts';
import { createInFlight } from './lib/in-flight.ts';
import { type Clock, countingSleep, type RandomBytes, type Sha256 } from './lib/runtime.ts';
import type { Log } from './log/log.ts';
import { reportCounts } from './log/stats.ts';
import { createMethods } from './mcp/methods.ts';
import type { Resource, ResourceTemplate } from './mcp/resource.ts';
import { createSessions } from './mcp/sessions.ts';
import { aboutRoute } from './routes/about.ts';
import { healthRoute } from './routes/health.ts';
import { mcpRoute } from './routes/mcp.ts';
import { metadataRoutes, metadataUrl, type ProtectedPath } from './routes/metadata.ts';
import { openapiRoute } from './routes/openapi.ts';
import { previewRoute } from './routes/preview.ts';
import { sseRoutes } from './routes/sse.ts';
import { toolsRoute } from './routes/tools.ts';
import { openStore, prepareDataFolder, type Store } from './store/open.ts';
import { createCallMaker } from './tools/core/call.ts';
import { createConfirm } from './tools/core/confirm.ts';
import { createToolRunner } from './tools/core/run.ts';
import type { Tool } from './tools/core/tool.ts';
import { createToolDeps, type ToolDeps, toolsByName } from './tools/core/toolbox.ts';
import { createTools } from './tools/index.ts';
import { widgetResources } from './widgets/index.ts';

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

export interface ServiceOptions {
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  /** The URL clients see. Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
  /** The tools to offer; those of tools/index.ts unless given. */
  readonly tools?: (deps: ToolDeps) => readonly Tool[];
  /** The resources to offer; the widgets unless given. */
  readonly resources?: readonly Resource[];
  readonly resourceTemplates?: readonly ResourceTemplate[];
}

export interface Service {
  readonly app: App;
  readonly keyDomain: KeyDomain;
  /** Writes what is pending and closes the store. */
  close(): Promise<void>;
}

/** Throws an Error whose message is the line to show: a folder, database, issuer or tool that can't be used. */
export async function createService(config: Config, options: ServiceOptions): Promise<Service> {
  prepareDataFolder(config, options.log);
  // For what may be believed and how long. Windows of rate limits aren't on it: setting the wall clock opens none.
  const ageClock = countingSleep(options.clock);
  const verifyUserJwt = await userJwtVerifier(config, { ...options, clock: ageClock });
  const store = await openStore(config.database, options.log);
  try {
    return serviceOn(store, verifyUserJwt, config, { ...options, ageClock });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function serviceOn(
  store: Store,
  verifyUserJwt: VerifyUserJwt,
  config: Config,
  options: ServiceOptions & { readonly ageClock: Clock },
): Service {
  const { clock, ageClock, random, sha256, log, publicUrl, tools: offered = createTools } = options;
  const { resources = widgetResources, resourceTemplates = [] } = options;
  const { production, revocationLagMaxMs: lagMaxMs, rateLimit } = config;
  const keyDomain = createKeyDomain({ store, clock: ageClock, random, sha256, log, production, lagMaxMs });
  const { keys, verifier } = keyDomain;
  const tools = offered(createToolDeps({ verifyKey: verifier.verify, verifyUserJwt, keys, rateLimit, clock, log }));
  const app = createApp({
    config,
    publicUrl,
    keyDomain,
    storeMode: store.mode,
    tools,
    resources,
    resourceTemplates,
    principals: createPrincipals(verifyUserJwt, verifier.verify, sha256),
    clock,
    random,
    log,
  });
  // Must come last: it starts a timer, which a later failure would leave running.
  const stopReporting = reportCounts(log, () => ({
    ...verifier.counts,
    storeReads: store.counts.reads,
    storeWrites: store.counts.writes,
  }));
  return {
    app,
    keyDomain,
    async close() {
      try {
        await keyDomain.stop();
      } finally {
        stopReporting();
        await store.close();
      }
    },
  };
}
