// Wires a server together, and only here: the core, then the doors, each by its name.

import { healthRoute } from './api/health.ts';
import { createRoutes } from './api/index.ts';
import { observing } from './api/observer.ts';
import type { Resource } from './calls/content.ts';
import type { Config } from './config/config.ts';
import { type Core, type CoreOptions, createCore, prepareBase } from './core.ts';
import { CHILD_LOOKUP, createChildStore, openChildren } from './doors/children/index.ts';
import { type MetricsDoor, openMetrics, type ProcessUsage } from './doors/metrics/index.ts';
import { openPage } from './doors/page/index.ts';
import { openRules, RULE_LOOKUP, warnOfRules } from './doors/rules/index.ts';
import { openServices } from './doors/services/index.ts';
import { openSse } from './doors/sse/index.ts';
import { openTraces } from './doors/traces/index.ts';
import { createWidgets } from './pages/widgets/index.ts';
import {
  type MakePrompts,
  type MakeTools,
  SERVER_FILE,
  settingsIn,
  ThrownBy,
  type ToolFile,
} from './tools/folder/tool-file.ts';
import { register } from './tools/registry.ts';
import { serverTools } from './tools/server-tools.ts';
import { createDispatch } from './web/dispatch.ts';

export interface ServiceOptions extends CoreOptions {
  /** Creates the tools that replace the server's own. */
  readonly tools?: MakeTools | undefined;
  /** Creates the server's prompts; by default there are none. */
  readonly prompts?: MakePrompts | undefined;
  /** Replace the server's own resources. */
  readonly resources?: readonly Resource[] | undefined;
  /** The operator's additional tools, prompts and resources. */
  readonly toolFiles?: readonly ToolFile[] | undefined;
  /** Measures memory and CPU of the process, for the metrics. */
  readonly usage?: () => ProcessUsage;
  /** When the certificate of the server's own TLS ends, for the metrics. */
  readonly certificateEndsAtMs?: number | undefined;
  /** The command that messages give for running a script of package.json; null if there is none. */
  readonly runScript?: string | null;
}

export type Service = Awaited<ReturnType<typeof prepareService>>;

export type App = Service['app'];

/** Creates a service, and opens its database. Throws an Error whose message is for the operator. */
export async function createService(config: Config, options: ServiceOptions): Promise<Service> {
  const service = await prepareService(config, options);
  await service.open();
  return service;
}

/**
 * Creates a service without opening its database. A failed start must not have migrated it, because the operator may
 * have to return to the previous version. Throws an Error for the operator about an unusable folder, issuer or tool.
 */
export async function prepareService(config: Config, options: ServiceOptions) {
  const metrics = await openMetrics(config, options);
  const base = await prepareBase(config, options, {
    watch: metrics?.watch,
    lookups: [CHILD_LOOKUP, RULE_LOOKUP], // in this order: a rule may have made a child
    createDerived: createChildStore,
    createReplica: await replicasOf(config),
  });
  try {
    return await serviceOn(createCore(base, openRules), metrics, options);
  } catch (error) {
    await base.database.close();
    throw error;
  }
}

async function replicasOf({ database }: Config) {
  if (database.mode === 'embedded' || database.replicaFile === null) return undefined;
  return (await import('./doors/copies/index.ts')).createReplica;
}

/** Opens what only admins use, if there are any: their tools, and a part of the page. */
async function openForAdmins(core: Core) {
  if (core.config.jwtClaims.admin === null) return { files: [], part: null };
  const { tools, part } = (await import('./doors/admin/index.ts')).openAdmin(core);
  const { ownerTools } = await import('./doors/owners/index.ts');
  return { files: [tools, ownerTools(core)], part };
}

/** Registers the tools, prompts and resources: the server's, those of doors, and the operator's. */
async function registerAll(core: Core, ofDoors: readonly ToolFile[], options: ServiceOptions) {
  const { config, env, guards, keys } = core;
  const { tools, prompts, resources = createWidgets(config.revocationLagMaxMs), toolFiles = [] } = options;
  const toolVariables = new Set<string>();
  const settings = settingsIn(env, toolVariables);
  const deps = { guards, keys, settings, ceilings: config.keyCeilings, keyReveal: config.keyReveal };
  const make = tools ?? serverTools(config.sampleTool, config.keysPage !== null);
  const files = [
    { file: SERVER_FILE, make, makePrompts: prompts, resources },
    ...(tools === undefined ? ofDoors : []),
    ...toolFiles,
  ];
  try {
    return { ...register(deps, files), toolVariables };
  } catch (error) {
    if (!(error instanceof ThrownBy)) throw error;
    throw (await import('./tools/folder/read-folder.ts')).unusableFile(error.file, error.thrown);
  }
}

async function serviceOn(core: Core, metrics: MetricsDoor | null, options: ServiceOptions) {
  const { config, address, users, database, domain } = core;
  const { runScript = 'bun run', usage: measureProcess, certificateEndsAtMs } = options;
  const { files, part } = await openForAdmins(core);
  const { tools, prompts, resources, keyScopes, custom, toolVariables } = await registerAll(core, files, options);
  const sse = openSse();
  const hasSignIn = config.connect !== null || config.device;
  const signIn = hasSignIn ? (await import('./doors/signin/index.ts')).openSignIn(core) : null;
  const traces = await openTraces(core);
  const accessLog = config.accessLog ? (await import('./api/access-log.ts')).createAccessLog(core) : [];
  const counted = { sessions: sse.count, spansDropped: traces?.dropped, measureProcess, certificateEndsAtMs };
  metrics?.addGauges({ ...core, ...counted });
  const observed = observing([accessLog, metrics?.observer ?? [], traces?.observer ?? []].flat());
  const routes = createRoutes({
    ...core,
    offered: { tools, prompts, resources },
    keyScopes,
    grantTypes: new Map([...(signIn?.grantTypes ?? []), ...openChildren(core)]),
    authorizationServer: signIn?.authorizationServer ?? null,
    handsOutKeys: signIn?.handsOutKeys ?? false,
    health: healthRoute({ ...core, store: database, sessions: sse.count }),
    observed,
    doors: ({ mcpOver, signInAt, calledBy }) => ({
      ...sse.routes({ ...core, mcp: mcpOver('sse'), calledBy, signIn: signInAt('/sse') }),
      metrics: metrics?.route ?? null,
      ...openServices(core),
      ...signIn?.routes,
      ...openPage({ ...core, part, keyScopes, runScript }),
    }),
  });
  return {
    app: {
      ...createDispatch({ ...core, routes, observe: observed.request }),
      /** Ends each event stream when its calls are done: the runtime's own stop would wait for the clients. */
      endStreams: sse.stop,
      /** Ends the calls that are still under way. */
      endCalls: core.endCalls,
    },
    url: address.url,
    storeMode: database.mode,
    /** The names of the tools and prompts of tool files. */
    custom,
    toolVariables,
    lastCalled: core.lastCalled,
    keyDomain: domain,
    fetchKeys: users.fetchKeys,
    checkIssuer: users.checkIssuer,
    /**
     * Opens and migrates the database, which the app needs. Throws an Error whose message is for the operator; the store
     * is then closed.
     */
    async open(): Promise<void> {
      await core.open();
      await warnOfRules(core);
    },
    /** Writes what is pending, and closes the store. */
    async close(): Promise<void> {
      try {
        await Promise.all([domain.stop(), traces?.stop()]);
      } finally {
        await database.close();
      }
    },
  };
}
