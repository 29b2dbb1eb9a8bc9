// The real service on a real libSQL file behind a real socket, in this process, with a clock moved by hand.

import { SignJWT } from 'jose';
import { createService, type Service, type ServiceOptions } from '../../src/app.ts';
import { parseConfig } from '../../src/config/config.ts';
import type { Env } from '../../src/config/env.ts';
import type { Actor } from '../../src/keys/actor.ts';
import { systemRandom } from '../../src/lib/runtime.ts';
import { createLog } from '../../src/log/log.ts';
import { serve } from '../../src/main.ts';
import { type TestClock, testClock } from './clock.ts';
import { temporaryFolder } from './folder.ts';
import { defaultStoreMode, type StoreMode, startStore, type TestStore } from './store-mode.ts';

export const TEST_SECRET = 'a secret for tests, of more than 32 bytes';

export interface LogLine {
  time: string;
  level: string;
  event: string;
  requestId?: string;
  [field: string]: unknown;
}

export interface TestApp extends AsyncDisposable {
  /** Without a trailing slash; BASE_PATH included. */
  readonly url: string;
  readonly clock: TestClock;
  readonly service: Service;
  readonly folder: string;
  /** A user token that is good for an hour of the test clock, unless `claims` say otherwise. */
  token(sub: string, claims?: Record<string, unknown>): Promise<string>;
  /** POST /tools/<tool> with a JSON body. */
  call(tool: string, input?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Creates a key for `sub` and returns the tool's output. */
  createKey(
    sub: string,
    input?: Record<string, unknown>,
  ): Promise<{ id: string; key: string; expiresAt: number | null }>;
  /** Calls get_data with a key. */
  useKey(key: string): Promise<Answer>;
  /** Everything logged so far. */
  log(): Promise<LogLine[]>;
  /** The same, as it was written. */
  logText(): Promise<string>;
  close(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
  readonly body: any;
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const json = response.headers.get('content-type')?.includes('json');
  return { status: response.status, headers: response.headers, body: json && text !== '' ? JSON.parse(text) : text };
}

export interface TestAppOptions extends Partial<Pick<ServiceOptions, 'tools' | 'resources' | 'resourceTemplates'>> {
  readonly env?: Env;
  /** Where its data is; an app made there later finds it again. */
  readonly folder?: string;
  readonly clock?: TestClock;
  /** Where the keys are kept: a mode, with a database of its own, or a database that several apps share. */
  readonly store?: StoreMode | TestStore;
}

export async function createTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const folder = options.folder ?? temporaryFolder();
  const { store = defaultStoreMode() } = options;
  const ownStore = typeof store === 'string' ? await startStore(store, folder) : null;
  const storeEnv = typeof store === 'string' ? ownStore?.env() : store.env();
  const env = { ...storeEnv, JWT_SECRET: TEST_SECRET, PORT: '0', ...options.env };
  const config = parseConfig(env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  const clock = options.clock ?? testClock();
  let logged = '';
  const log = createLog({
    level: config.value.logLevel,
    clock,
    write: async (chunk) => {
      logged += new TextDecoder().decode(chunk);
    },
  });
  let publicUrl = config.value.publicUrl ?? '';
  const service = await createService(config.value, {
    clock,
    random: systemRandom,
    sha256: Bun.SHA256.hash,
    log,
    publicUrl: () => publicUrl,
    ...(options.tools && { tools: options.tools }),
    ...(options.resources && { resources: options.resources }),
    ...(options.resourceTemplates && { resourceTemplates: options.resourceTemplates }),
  }).catch(async (error) => {
    await ownStore?.[Symbol.asyncDispose]();
    throw error;
  });
  const server = serve({ hostname: '127.0.0.1', port: 0, tls: null, fetch: service.app.fetch });
  const url = `http://127.0.0.1:${server.port}${config.value.basePath}`;
  publicUrl ||= url;

  const app: TestApp = {
    url,
    clock,
    service,
    folder,
    token(sub, claims = {}) {
      const nowS = Math.floor(clock.nowMs() / 1000);
      const all = { sub, iat: nowS, exp: nowS + 3600, ...claims };
      return new SignJWT(all).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(TEST_SECRET));
    },
    async call(tool, input = {}, headers = {}) {
      const response = await fetch(`${url}/tools/${tool}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(input),
      });
      return answerOf(response);
    },
    async createKey(sub, input = {}) {
      const answer = await app.call(
        'create_api_key',
        { name: 'test key', scopes: ['read'], ...input },
        await bearer(app, sub),
      );
      if (answer.status !== 200) throw new Error(`create_api_key answered ${answer.status}`);
      return answer.body;
    },
    useKey: (key) => app.call('get_data', {}, { 'x-api-key': key }),
    async log() {
      return (await app.logText())
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as LogLine);
    },
    async logText() {
      await log.flush();
      return logged;
    },
    async close() {
      server.kill();
      await service.close();
      await ownStore?.[Symbol.asyncDispose]();
    },
    [Symbol.asyncDispose]: () => app.close(),
  };
  return app;
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

/** A user who asks for himself, and may grant anything. */
export const actorFor = (userId: string): Actor => ({ userId, actor: userId, grantable: null, requestId: 'test' });

/** Makes a key for `userId` in an app that does not offer the server's own tools. */
export async function insertKey({ service }: TestApp, userId: string, scopes: readonly string[] = []): Promise<string> {
  const made = await service.keyDomain.keys.create(actorFor(userId), { name: 'test key', scopes });
  if (!made.ok) throw new Error(made.error.code);
  return made.value.key;
}

/** Headers that carry a user token of `sub`. */
export const bearer = async (app: TestApp, sub: string) => ({ authorization: `Bearer ${await app.token(sub)}` });

/** For lists whose response nobody waits for. */
export const NOBODY = { holdUntilSent: (release: () => void) => release() };
