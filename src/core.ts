// The core: a server without doors. Prepares what it stands on, which are settings, clocks, user tokens and a store; then
// creates keys, guards, and what routes need. Each door takes it whole, and its options say what it uses.

import { createGuards, type GuardsOptions } from './calls/guards.ts';
import { createIdentify } from './calls/identify.ts';
import { createRecheck } from './calls/proof.ts';
import { createRun } from './calls/run.ts';
import type { Config } from './config/config.ts';
import type { Env } from './config/env.ts';
import { LIMITS } from './ground/limits/index.ts';
import { createPool } from './ground/limits/pool.ts';
import { type Clock, type CreateHttpClient, countingSleep, type RandomBytes, type Sha256 } from './ground/runtime.ts';
import { createServerAddress } from './ground/server-address.ts';
import { createOriginOf } from './keys/actor.ts';
import { createAudience } from './keys/audience.ts';
import { createKeyDomain, type RuleParts } from './keys/index.ts';
import { createPlanOf } from './keys/plans.ts';
import type { Rules, Verifier } from './keys/verify.ts';
import { openRequestStates } from './mcp/client.ts';
import type { StoreOf } from './store/database.ts';
import { prepareDataFolder, prepareStore, type StoreOptions } from './store/open.ts';
import { planStore } from './store/owner-settings.ts';
import { keyRequestReader } from './tools/create-api-key.ts';
import { createUserJwts } from './users/index.ts';
import type { Log } from './watch/log.ts';
import { createStreams } from './web/stream.ts';

export interface CoreOptions {
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  /** The URL that clients use, as the server's only name; by default PUBLIC_URL. */
  readonly publicUrl?: string | undefined;
  /** The origin that the server listens on, which counts without a public URL; by default from HOST and PORT. */
  readonly listening?: string | undefined;
  /** Multiplies the timeouts of a remote database, for tests on busy machines. */
  readonly storePatience?: number;
  /** Creates the connections to a remote database. */
  readonly createHttpClient?: CreateHttpClient | undefined;
  /** The environment with the settings of tools. */
  readonly env?: Env;
}

/** Wraps parts of the core to time and count what they do. */
interface Watch {
  store<S extends object>(store: S): S;
  /** Wraps a guard to count its refusals. */
  guard: GuardsOptions['observe'];
  verify(verifier: Verifier): Verifier['verify'];
  /** Counts what became of a workload's token. */
  token(result: 'memory' | 'verified' | 'refused' | 'unavailable'): void;
}

const UNWATCHED: Watch = { store: (store) => store, guard: undefined, verify: ({ verify }) => verify, token() {} };

/** What doors add to the store, and what watches it. */
interface Beneath extends Pick<StoreOptions, 'lookups' | 'createDerived' | 'createReplica'> {
  readonly watch?: Watch | undefined;
}

type Base = Awaited<ReturnType<typeof prepareBase>>;

/** Prepares a store that touches no database yet. Throws an Error for the operator about an unusable folder or issuer. */
export async function prepareBase(config: Config, options: CoreOptions, { watch = UNWATCHED, ...beneath }: Beneath) {
  const { clock, random, sha256, log, publicUrl = config.publicUrl, listening, env = {} } = options;
  const { storePatience, createHttpClient } = options;
  const newFolder = prepareDataFolder(config);
  // Measures ages, and counts the time a machine sleeps. Guards that count calls in this process alone don't use it: a wall
  // clock that is set ahead and back, again and again, would open their windows anew.
  const ageClock = countingSleep(clock);
  const address = createServerAddress({ ...config, publicUrl }, listening);
  const users = await createUserJwts(config, { address, clock: ageClock, sha256, log });
  const { eventDays, usageDays } = config;
  const kept = { eventDays, usageDays };
  const database = await prepareStore(config.database, {
    clock,
    log,
    storePatience,
    createHttpClient,
    kept,
    ...beneath,
  });
  const storeOf: StoreOf = (create) => watch.store(create(database.db));
  return {
    config,
    env,
    address,
    users,
    database,
    db: database.db,
    storeOf,
    store: watch.store(database),
    planStore: storeOf(planStore),
    derived: watch.store(database.derived),
    watch,
    clock,
    ageClock,
    random,
    sha256,
    log,
    async open(): Promise<void> {
      // Else the first user without keys would discover a mistyped path.
      if (newFolder !== null && config.production) {
        log.warn('database made in a new folder: no key is known yet', { folder: newFolder });
      }
      await database.open();
    },
  };
}

/** Enough to be unique among processes, and short enough to begin every request id. */
const INSTANCE_BYTES = 6;

export type Core = ReturnType<typeof createCore>;

/** Creates the core. `openRules` opens what lets tokens of other issuers in as keys. */
export function createCore(base: Base, openRules?: (parts: Base & RuleParts) => Rules) {
  const { config, address, users, database, watch, clock, ageClock, random, log } = base;
  const startedAtMs = ageClock.monotonicMs();
  const originOf = createOriginOf(config.eventAddresses);
  const audience = createAudience(address, config.resources);
  const domain = createKeyDomain({
    ...base,
    ...config,
    clock: ageClock,
    originOf,
    audience,
    openRules: openRules && ((parts) => openRules({ ...base, ...parts })),
  });
  const { verifier, checkBlock, feed, usage } = domain;
  feed.subscribe({ onPage: database.onPage });
  const signing = (use: 'request_state' | 'client_id') => ({
    readSecret: () => database.serverSecret(use),
    databaseId: () => feed.position.databaseId,
  });
  const verifyKey = watch.verify(verifier);
  const verifyUserJwt = users.createVerify(domain.isOfRule);
  const recheck = createRecheck(feed, log);
  return {
    ...base,
    ...domain,
    domain,
    keys: { ...domain.keys, planOf: createPlanOf({ ...base, usage }) },
    originOf,
    audience,
    /** Returns how to sign for a use: with a secret that all processes on the database share. */
    signing,
    verifyKey,
    guards: createGuards({
      rateLimit: config.keyDefaults.rateLimit,
      userRateLimit: config.userRateLimit,
      verifyKey,
      revalidateKey: verifier.revalidate,
      verifyUserJwt,
      checkBlock,
      admit: usage.admit,
      clock,
      log,
      observe: watch.guard,
      helpsSignIn: config.connect === null ? undefined : config.keysPage === null ? 'without_page' : 'with_page',
    }),
    identify: createIdentify(verifyUserJwt, verifier.inspect),
    recheck,
    ...createRun({ log, recheck, clock }),
    /** Parses the fields of a key as create_api_key does. */
    readKeyRequest: keyRequestReader(config.keyCeilings),
    requestStates: openRequestStates(signing('request_state'), clock),
    streams: createStreams(createPool(LIMITS.unread, ageClock), clock, log),
    bodies: createPool(LIMITS.messages, ageClock),
    instance: random(INSTANCE_BYTES).toHex(),
    uptimeMs: () => ageClock.monotonicMs() - startedAtMs,
  };
}
