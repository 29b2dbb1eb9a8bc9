// The app for tests (src/start/package/testing), on each kind of store, and with what only these tests look at: the
// database beside it, as operators see it, and the few things of it that no request reaches.

import type { App, ServiceOptions } from '../../src/app.ts';
import type { Env } from '../../src/config/env.ts';
import type { Actor, Caller } from '../../src/keys/actor.ts';
import type { Keys } from '../../src/keys/index.ts';
import {
  type TestApp as PublicTestApp,
  readResponse,
  serveTestApp,
  TEST_SECRET,
  type TestResponse,
} from '../../src/start/package/testing/test-app.ts';
import type { TestClock } from './clock.ts';
import { temporaryFolder } from './folder.ts';
import { jsonLines, keysOutput } from './keys-command.ts';
import { shared } from './shared.ts';
import { defaultStoreMode, type StoreMode, startStore, type TestStore } from './store-mode.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read responses of any shape
export type Json = any;

export type { LogLine } from '../../src/start/package/testing/test-app.ts';
export { type Env, readResponse, TEST_SECRET, type TestResponse };

export interface TestApp extends PublicTestApp {
  readonly folder: string;
  /** Calls get_data with a key. */
  useKey(key: string): Promise<TestResponse>;
  /** `keys <verb> …` beside it, on its database; returns what it prints. Throws if it fails. */
  keys(...args: string[]): Promise<string>;
  /** Takes its database away: from now on the store responds to nothing. */
  loseStore(): Promise<void>;
  /** How often it has asked its store for these (as its metrics name them); needs the environment COUNTED. */
  storeCalls(...operations: string[]): Promise<number>;
  /** How often it has read keys from its store; needs the environment COUNTED. */
  storeReads(): Promise<number>;
  /** As the runtime calls it: for requests and ends of them that no client can make happen at will. */
  readonly handler: App;
  /** The update of a key by its owner that no tool offers. */
  readonly update: Keys['update'];
}

/** For apps whose reads are counted. */
export const COUNTED = { METRICS_TOKEN: 'a-token-of-tests-for-metrics' };

/** A machine that does other things too may take so much longer over a read of a remote database. */
const STORE_PATIENCE = 5;

export interface TestAppOptions
  extends Partial<Pick<ServiceOptions, 'tools' | 'prompts' | 'resources' | 'toolFiles' | 'storePatience'>> {
  readonly env?: Env;
  /** Where its data is; an app made there later finds it again. */
  readonly folder?: string;
  readonly clock?: TestClock;
  /** Where the keys are kept: a mode, with a database of its own, or a database that several apps share. */
  readonly store?: StoreMode | TestStore;
}

export async function createTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const { folder = temporaryFolder(), store = defaultStoreMode(), env, clock, ...service } = options;
  const ownStore = typeof store === 'string' ? await startStore(store, folder) : null;
  const storeEnv = typeof store === 'string' ? ownStore?.env() : store.env();
  const own = { ...storeEnv, ...env };
  const made = await serveTestApp({
    env: own,
    service: { storePatience: STORE_PATIENCE, ...service },
    ...(clock && { clock }),
  }).catch(async (error) => {
    await ownStore?.[Symbol.asyncDispose]();
    throw error;
  });
  const { service: inside, ...served } = made;
  async function close(): Promise<void> {
    await served.close();
    await ownStore?.[Symbol.asyncDispose]();
  }
  return {
    ...served,
    folder,
    useKey: (key) => served.call('get_data', {}, { 'x-api-key': key }),
    keys: (...args) => keysOutput(own, args),
    loseStore: inside.close,
    storeCalls: (...operations) => callsIn(served.url, operations),
    storeReads: () => callsIn(served.url, ['find_by_hashes']),
    handler: inside.app,
    update: inside.keyDomain.keys.update,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Makes an app that the tests of a file share. */
export const sharedApp = (options?: TestAppOptions): Promise<TestApp> => shared(createTestApp(options));

/**
 * What keeps an app from being made; empty when nothing does. (Bun's `expect(…).rejects` waits without running what is
 * due by setImmediate, which opening a database needs: with it each of these tests takes a second, at times many.)
 */
export const failureOf = (making: Promise<TestApp>): Promise<string> =>
  making.then(
    () => '',
    (error) => String(error),
  );

/** Where a request comes from that no client made. */
export const CALLER: Caller = { requestId: 'test', clientAddress: () => 'here' };

/** The peer of a request that is made in this process and comes over no connection. */
export const NO_CONNECTION: Parameters<App['fetch']>[1] = { address: () => null, holdOpen() {} };

/** A user who asks for himself or, as a member, for an owner, and may grant anything. */
export const actorFor = (userId: string, actor = userId): Actor => ({
  ...CALLER,
  userId,
  actor,
  grantable: null,
});

const CALLS = /^mcp_keys_store_duration_seconds_count\{operation="(\w+)"\} (\d+)$/gm;

/** Of an app that was made with the environment COUNTED. */
export async function metricsOf(url: string): Promise<string> {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${COUNTED.METRICS_TOKEN}` } });
  if (!response.ok) throw new Error('the app was made without COUNTED');
  return response.text();
}

async function callsIn(url: string, operations: readonly string[]): Promise<number> {
  return [...(await metricsOf(url)).matchAll(CALLS)]
    .filter(([, operation = '']) => operations.includes(operation))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

/** The events of an app's keys so far, oldest first, as `keys events --json` prints them; `options` of that. */
export const eventsIn = async (app: Pick<TestApp, 'keys'>, ...options: string[]): Promise<Json[]> =>
  jsonLines({ stdout: await app.keys('events', '--json', ...options) });

/** Makes a key for `userId`, also in an app that does not offer the server's own tools. */
export async function insertKey(
  app: Pick<TestApp, 'keys'>,
  userId: string,
  scopes: readonly string[] = [],
): Promise<string> {
  const each = scopes.flatMap((scope) => ['--scope', scope]);
  return (await app.keys('create', '--user', userId, '--name', 'test key', ...each)).trim();
}

/** Names a key where it must not be shown. */
export const fingerprint = (key: string): string => Bun.SHA256.hash(key, 'hex').slice(0, 12);

/** Headers that carry a user token of `sub`. */
export const bearer = async (app: Pick<TestApp, 'token'>, sub: string, claims: Record<string, unknown> = {}) => ({
  authorization: `Bearer ${await app.token(sub, claims)}`,
});

/** The environment in which `adminOf` is an admin. */
export const ADMINS = { ADMIN_CLAIM: 'roles=keys-admin' };

/** Headers that carry an admin's token. */
export const adminOf = (app: Pick<TestApp, 'token'>, sub = 'root') => bearer(app, sub, { roles: 'keys-admin' });

/** The keys of a user, as list_api_keys shows them, on all pages. */
export async function listedKeys(app: TestApp, userId: string) {
  const headers = await bearer(app, userId);
  const keys = [];
  for (let cursor: string | undefined; ; ) {
    const { status, body } = await app.call('list_api_keys', { cursor }, headers);
    if (status !== 200) throw new Error(`list_api_keys responded ${status}`);
    keys.push(...body.keys);
    cursor = body.nextCursor;
    if (cursor === undefined) return keys;
  }
}
