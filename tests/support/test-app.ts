// The app for tests (src/start/package/testing), on each kind of store, and with what only these tests look at.

import type { Service, ServiceOptions } from '../../src/app.ts';
import type { Env } from '../../src/config/env.ts';
import type { Actor, Caller } from '../../src/keys/actor.ts';
import type { OwnKey } from '../../src/keys/listing.ts';
import type { EventQuery, KeyEvent, ListPlace } from '../../src/keys/store.ts';
import {
  type TestApp as PublicTestApp,
  readResponse,
  serveTestApp,
  TEST_SECRET,
  type TestResponse,
} from '../../src/start/package/testing/test-app.ts';
import type { TestClock } from './clock.ts';
import { temporaryFolder } from './folder.ts';
import { defaultStoreMode, type StoreMode, startStore, type TestStore } from './store-mode.ts';

export type { LogLine } from '../../src/start/package/testing/test-app.ts';
export { readResponse, TEST_SECRET, type TestResponse };

export interface TestApp extends PublicTestApp {
  readonly service: Service;
  readonly folder: string;
  /** Calls get_data with a key. */
  useKey(key: string): Promise<TestResponse>;
}

export interface TestAppOptions extends Partial<Pick<ServiceOptions, 'tools' | 'prompts' | 'resources'>> {
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
  const served = await serveTestApp({ env: { ...storeEnv, ...env }, service, ...(clock && { clock }) }).catch(
    async (error) => {
      await ownStore?.[Symbol.asyncDispose]();
      throw error;
    },
  );
  async function close(): Promise<void> {
    await served.close();
    await ownStore?.[Symbol.asyncDispose]();
  }
  return {
    ...served,
    folder,
    useKey: (key) => served.call('get_data', {}, { 'x-api-key': key }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

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

/** A user who asks for himself or, as a member, for an owner, and may grant anything. */
export const actorFor = (userId: string, actor = userId): Actor => ({
  ...CALLER,
  userId,
  actor,
  grantable: null,
});

/** The events of an app's keys so far, oldest first. */
export function eventsIn({ service }: TestApp, query: Partial<EventQuery> = {}): Promise<KeyEvent[]> {
  return service.keyDomain.events({ afterSeq: null, limit: 1000, ...query });
}

/** Makes a key for `userId` in an app that does not offer the server's own tools. */
export async function insertKey({ service }: TestApp, userId: string, scopes: readonly string[] = []): Promise<string> {
  const made = await service.keyDomain.keys.create(actorFor(userId), { name: 'test key', scopes });
  if (!made.ok) throw new Error(made.error.code);
  return made.value.key;
}

/** Headers that carry a user token of `sub`. */
export const bearer = async (app: TestApp, sub: string) => ({ authorization: `Bearer ${await app.token(sub)}` });

/** The keys of a user as the key domain lists them, the first page. */
export async function listedKeys({ service }: TestApp, actor: Actor): Promise<readonly OwnKey[]> {
  const keys: (OwnKey & ListPlace)[] = [];
  for (;;) {
    const page = await service.keyDomain.keys.list(actor, keys.at(-1) ?? null);
    if (!page.ok) throw new Error(page.error.code);
    keys.push(...page.value.keys);
    if (page.value.remaining <= page.value.keys.length) return keys;
  }
}
