// Wires a server together, and only here: from a configuration to a store, the key domain, the tools, and an app that
// handles requests.

import { healthRoute } from './api/health.ts';
import { createApi } from './api/index.ts';
import { createGuards } from './calls/guards.ts';
import { createIdentify } from './calls/identify.ts';
import { createRecheck } from './calls/proof.ts';
import { createRun } from './calls/run.ts';
import { settingsIn } from './calls/settings.ts';
import { createCheckBlock } from './calls/user-jwt.ts';
import type { Config } from './config/config.ts';
import type { Env } from './config/env.ts';
import { shownMintingCommand } from './config/token-settings.ts';
import { childrenStore, openChildren } from './doors/children/index.ts';
import { openMetrics, type ProcessUsage } from './doors/metrics/index.ts';
import { openPage } from './doors/page/index.ts';
import { openRules, RULE_LOOKUP, warnOfRules, workloadGrants } from './doors/rules/index.ts';
import { openServices, type ServicesOptions } from './doors/services/index.ts';
import { openSse } from './doors/sse/index.ts';
import { openTraces } from './doors/traces/index.ts';
import { LIMITS } from './ground/limits/index.ts';
import { createPool } from './ground/limits/pool.ts';
import { type Clock, countingSleep, type RandomBytes, type Sha256 } from './ground/runtime.ts';
import { createServerAddress, listeningOrigin, type ServerAddress } from './ground/server-address.ts';
import { createOriginOf } from './keys/actor.ts';
import { createAudience } from './keys/audience.ts';
import { createKeyDomain, type KeyDomain } from './keys/index.ts';
import { createRequestStates } from './mcp/client.ts';
import { createWidgets } from './pages/widgets/index.ts';
import { prepareDataFolder, prepareStore, type Store } from './store/open.ts';
import { keyRequestReader } from './tools/create-api-key.ts';
import type { ToolFile } from './tools/folder/tool-file.ts';
import { type CustomNames, register } from './tools/registry.ts';
import { type ServerFileOptions, serverFile } from './tools/server-tools.ts';
import { createUserJwts } from './users/index.ts';
import { createFindSignIn } from './users/sign-in.ts';
import type { Log } from './watch/log.ts';
import { createDispatch, type Dispatch } from './web/dispatch.ts';
import { createStreams } from './web/stream.ts';

export interface App extends Dispatch {
  /** Ends each event stream when its calls are done: the runtime's own stop would wait for the clients. */
  endStreams(): void;
}

export interface ServiceOptions extends Partial<Pick<ServerFileOptions, 'tools' | 'prompts' | 'resources'>> {
  /** The operator's additional tools, prompts and resources. */
  readonly toolFiles?: readonly ToolFile[] | undefined;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  /** The URL that clients use, as the server's only name; by default PUBLIC_URL. */
  readonly publicUrl?: string | undefined;
  /** The origin that the server listens on, which counts without a public URL; by default from HOST and PORT. */
  readonly listening?: string | undefined;
  /** Measures memory and CPU of the process, for the metrics. */
  readonly usage?: () => ProcessUsage;
  /** When the certificate of the server's own TLS ends, for the metrics. */
  readonly certificateEndsAtMs?: number | undefined;
  /** Multiplies the timeouts of a remote database, for tests on busy machines. */
  readonly storePatience?: number;
  /** The environment with the settings of tools. */
  readonly env?: Env;
  /** The command that messages give for running a script of package.json; null if there is none. */
  readonly runScript?: string | null;
}

export interface Service {
  readonly app: App;
  readonly keyDomain: KeyDomain;
  /** The URL that clients use. */
  readonly url: string;
  readonly storeMode: Store['mode'];
  /** The tools and prompts of tool files. */
  readonly custom: CustomNames;
  /** The names of the variables that tools read. */
  readonly toolVariables: ReadonlySet<string>;
  readonly lastCalled: () => string | undefined;
  /** Writes what is pending, and closes the store. */
  close(): Promise<void>;
}

export interface PreparedService extends Service {
  /**
   * Opens and migrates the database, which the app needs. Throws an Error whose message is for the operator; the store
   * is then closed.
   */
  open(): Promise<void>;
  fetchKeys(): Promise<void>;
  checkIssuer(): Promise<void>;
}

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
export async function prepareService(config: Config, options: ServiceOptions): Promise<PreparedService> {
  const newFolder = prepareDataFolder(config);
  // For the ages of cache entries. Windows of rate limits don't use it, so setting the wall clock opens none.
  const ageClock = countingSleep(options.clock);
  const address = addressOf(config, options);
  const users = await createUserJwts(config, { ...options, address, clock: ageClock });
  const { createVerify, fetchKeys, checkIssuer } = users;
  const store = await prepareStore(config.database, {
    ...options,
    eventDays: config.eventDays,
    usageDays: config.usageDays,
    ownerKeys: config.ownerKeys,
    derived: childrenStore,
    rules: RULE_LOOKUP,
    createReplica: await replicasOf(config),
  });
  try {
    const service = await serviceOn({ store, address, createVerify, ageClock, config, options });
    async function open(): Promise<void> {
      // Else the first user without keys would discover a mistyped path.
      if (newFolder !== null && config.production) {
        options.log.warn('database made in a new folder: no key is known yet', { folder: newFolder });
      }
      await store.open();
      await warnOfRules(store.db, config, address, options);
    }
    return { ...service, open, fetchKeys, checkIssuer };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Loads what creates a replica, if one is configured. */
async function replicasOf({ database }: Config) {
  if (database.mode === 'embedded' || database.replicaFile === null) return undefined;
  return (await import('./doors/copies/index.ts')).createReplica;
}

/** Enough to be unique among processes, and short enough to begin every request id. */
const INSTANCE_BYTES = 6;

const addressOf = (config: Config, { publicUrl, listening }: ServiceOptions): ServerAddress =>
  createServerAddress({
    ...config,
    publicUrl: publicUrl ?? config.publicUrl,
    listening: listening ?? listeningOrigin(config, config.port),
  });

/** The parts from which the others are created, in this order: keys, tools, what services ask, routes. */
interface Parts {
  readonly store: Store;
  readonly address: ServerAddress;
  readonly createVerify: Awaited<ReturnType<typeof createUserJwts>>['createVerify'];
  readonly ageClock: Clock;
  readonly config: Config;
  readonly options: ServiceOptions;
}

/** Creates the key domain, and the metrics around it. */
async function keysOf({ store, address, createVerify, ageClock, config, options }: Parts) {
  const metrics = await openMetrics(config.metricsToken, options);
  const originOf = createOriginOf(config.eventAddresses);
  const audience = createAudience(address, config.resources);
  const keyStore = metrics?.store(store) ?? store;
  const rules = openRules({
    ...options,
    db: store.db,
    config,
    address,
    feed: () => domain.feed,
    budgets: () => domain.lookupBudgets,
    clock: ageClock,
    count: metrics?.token ?? (() => {}),
  });
  const domain: KeyDomain = createKeyDomain({
    ...config,
    ...options,
    clock: ageClock,
    store: keyStore,
    planStore: metrics?.store(store.plans) ?? store.plans,
    derived: metrics?.store(store.derived) ?? store.derived,
    originOf,
    audience,
    ceilings: config.keyCeilings,
    lagMaxMs: config.revocationLagMaxMs,
    findRule: rules.findRule,
  });
  const { verifier, feed } = domain;
  feed.subscribe({ onPage: store.onPage });
  const signing = (use: 'request_state' | 'client_id') => ({
    readSecret: () => store.serverSecret(use),
    databaseId: () => feed.position.databaseId,
  });
  const verifyKey = metrics?.verify(verifier) ?? verifier.verify;
  const verifyUserJwt = createVerify(rules.isOfRule);
  return { domain, metrics, originOf, audience, keyStore, verifyKey, verifyUserJwt, signing };
}

type Keys = Awaited<ReturnType<typeof keysOf>>;

/** Returns what doors add for admins, if there are any: tools, the trail of anybody's keys, and a part of the page. */
async function forAdmins({ store, config, options }: Parts, { domain, metrics, originOf, keyStore }: Keys) {
  if (config.jwtClaims.admin === null) return { tools: [], trail: null, part: null };
  const [admin, owners] = await Promise.all([import('./doors/admin/index.ts'), import('./doors/owners/index.ts')]);
  const timed = <S extends object>(one: S): S => metrics?.store(one) ?? one;
  const { granted, usage, feed } = domain;
  const { clock, log } = options;
  const given = { originOf, granted, usage, refresh: feed.refresh, clock, log };
  const adminStore = timed(admin.createAdminStore(store.db));
  const ownerStore = timed(owners.createOwnerStore(store.db));
  return {
    tools: [
      admin.adminTools({ ...given, store: adminStore, derived: store.derived }),
      owners.ownerTools({ ...given, ownerStore, planStore: store.plans, defaults: config }),
    ],
    trail: admin.createTrail({ store: adminStore, keyStore, clock, log }),
    part: admin.operatorsPart,
  };
}

/** Creates the guards, and registers the tools, prompts and resources. */
async function toolsOf(parts: Parts, made: Keys) {
  const { config, options } = parts;
  const { domain, metrics, keyStore, verifyKey, verifyUserJwt } = made;
  const { tools: ofDoors, trail, part } = await forAdmins(parts, made);
  const { clock, log, env = {} } = options;
  const { feed, verifier, usage, keys } = domain;
  const guards = createGuards({
    ...config,
    verifyKey,
    revalidateKey: verifier.revalidate,
    verifyUserJwt,
    checkBlock: createCheckBlock({ store: keyStore, feed }),
    admit: usage.admit,
    clock,
    log,
    observe: metrics?.guard,
    helpsSignIn: config.connect === null ? undefined : config.keysPage === null ? 'without_page' : 'with_page',
  });
  const { keyCeilings: ceilings, keyReveal } = config;
  const toolVariables = new Set<string>();
  const registry = register({ guards, keys, settings: settingsIn(env, toolVariables), ceilings, keyReveal }, [
    serverFile({
      tools: options.tools,
      prompts: options.prompts,
      resources: options.resources ?? createWidgets(config.revocationLagMaxMs),
      sample: config.sampleTool,
    }),
    ...(options.tools === undefined ? ofDoors : []),
    ...(options.toolFiles ?? []),
  ]);
  return { guards, toolVariables, trail, part, ...registry };
}

type Tools = Awaited<ReturnType<typeof toolsOf>>;

/** Opens sign-in, if clients get keys here. */
async function signInOf(
  { store, ageClock, config, options }: Parts,
  { domain, signing, originOf, audience }: Keys,
  { guards }: Tools,
) {
  const { connect, device, keysPage, keyCeilings, ownerKeys } = config;
  if (connect === null && !device) return null;
  const { clock, random, sha256, log } = options;
  const { keys, verifier, lookupBudgets } = domain;
  const { openSignIn } = await import('./doors/signin/index.ts');
  return openSignIn({
    connect,
    device,
    hasKeysPage: keysPage !== null,
    db: store.db,
    ownerKeys,
    lookupBudgets,
    keys,
    inspect: verifier.inspect,
    verifyPastedKey: verifier.verifyPasted,
    guards,
    readKeyRequest: keyRequestReader(keyCeilings),
    audience,
    originOf,
    ...signing('client_id'),
    clock,
    ageClock,
    random,
    sha256,
    log,
  });
}

/** Creates the routes for other services. */
function servicesOf(
  { ageClock, options: { sha256, log } }: Parts,
  { domain, keyStore, verifyKey, signing }: Keys,
  { guards, recheck }: Pick<ServicesOptions, 'guards' | 'recheck'>,
) {
  const made = { store: keyStore, verifyKey, guards, recheck, signing: signing('client_id') };
  return openServices({ ...domain, ...made, ageClock, sha256, log });
}

/** Opens what makes children of keys. */
const childrenOf = ({ store, ageClock, config, options }: Parts, { domain, originOf, audience }: Keys) =>
  openChildren({
    ...options,
    ...config,
    db: store.db,
    verifier: domain.verifier,
    audience,
    originOf,
    clock: ageClock,
    readKeyRequest: keyRequestReader(config.keyCeilings),
  });

/** Opens the doors by which clients get keys: their routes, and what /token needs of them. */
async function clientsOf(parts: Parts, keys: Keys, tools: Tools) {
  const signIn = await signInOf(parts, keys, tools);
  const children = childrenOf(parts, keys);
  const workloads = workloadGrants(children.delegate);
  return {
    routes: signIn?.routes,
    grantTypes: new Map([...(signIn?.grantTypes ?? []), ...children.grantTypes, ...workloads]),
    authorizationServer: signIn?.authorizationServer ?? null,
    handsOutKeys: signIn !== null && parts.config.connect !== null,
  };
}

/** Returns the routes of the page /keys; none if it is off. */
function pageOf(parts: Parts, { domain, originOf, keyStore }: Keys, { guards, keyScopes, trail, part }: Tools) {
  const { store, address, config, options } = parts;
  if (config.keysPage === null) return {};
  const { clock, log, env = {}, runScript = 'bun run' } = options;
  const { signIn } = config.keysPage;
  return openPage({
    config,
    address,
    keyScopes,
    guards,
    trail,
    part,
    store: keyStore,
    derived: store.derived,
    creations: domain.creations,
    refresh: domain.feed.refresh,
    usage: domain.usage,
    originOf,
    findSignIn: signIn && createFindSignIn(signIn.issuer, clock, log),
    mints: shownMintingCommand(config, { env, publicUrl: address.url, runScript }),
    clock,
    log,
  });
}

async function serviceOn(parts: Parts): Promise<Service> {
  const { store, address, ageClock, config, options } = parts;
  const { clock, random, sha256, log } = options;
  const startedAtMs = ageClock.monotonicMs();
  const instance = random(INSTANCE_BYTES).toHex();
  const keys = await keysOf(parts);
  const { domain, metrics, signing, verifyUserJwt } = keys;
  const { verifier, feed } = domain;
  const offered = await toolsOf(parts, keys);
  const { tools, prompts, resources, keyScopes, guards } = offered;
  const recheck = createRecheck(feed, log);
  const { run, lastCalled } = createRun({ log, recheck, clock });
  const sse = openSse();
  const clients = await clientsOf(parts, keys, offered);
  const identify = createIdentify(verifyUserJwt, verifier.inspect);
  const streams = createStreams(createPool(LIMITS.unread, ageClock), clock, log);
  const traces = await openTraces({ ...config, env: options.env ?? {}, instance, identify, clock, random, log });
  metrics?.addGauges({
    feed,
    lagMaxMs: config.revocationLagMaxMs,
    writable: store.writable,
    sessions: sse.count,
    spansDropped: traces?.dropped,
    store,
    usage: options.usage,
    certificateEndsAtMs: options.certificateEndsAtMs,
  });
  const api = createApi({
    ...clients,
    config,
    address,
    revokeTokens: domain.revokeSecrets,
    guards,
    tools: [...tools.values()],
    offered: { tools, prompts, resources, requestStates: createRequestStates({ ...signing('request_state'), clock }) },
    run,
    recheck,
    streams,
    identify,
    keyScopes,
    health: healthRoute({
      store,
      feed,
      sessions: sse.count,
      instance,
      uptimeMs: () => ageClock.monotonicMs() - startedAtMs,
    }),
    observers: [metrics?.observer ?? [], traces?.observer ?? []].flat(),
    doors: ({ mcpOver, signInAt }) => ({
      ...sse.routes({
        mcp: mcpOver('sse'),
        signIn: signInAt('/sse'),
        streams,
        identify,
        publicPath: address.path,
        isShared: config.reusePort,
        log,
      }),
      metrics: metrics?.route ?? null,
      ...servicesOf(parts, keys, { guards, recheck }),
      ...clients.routes,
      ...pageOf(parts, keys, offered),
    }),
    clock,
    sha256,
    log,
  });
  return {
    app: {
      ...createDispatch({ ...api, instance, bodies: createPool(LIMITS.messages, ageClock) }),
      endStreams: sse.stop,
    },
    url: address.url,
    storeMode: store.mode,
    custom: offered.custom,
    toolVariables: offered.toolVariables,
    lastCalled,
    keyDomain: domain,
    async close() {
      try {
        await Promise.all([domain.stop(), traces?.stop()]);
      } finally {
        await store.close();
      }
    },
  };
}
