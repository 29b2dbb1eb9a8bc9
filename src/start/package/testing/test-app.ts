// Starts the real service behind a real socket, in this process, with a clock moved by hand: for tests of tools.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SignJWT } from 'jose/jwt/sign';
import { createService, type Service, type ServiceOptions } from '../../../app.ts';
import { inWords } from '../../../calls/schema.ts';
import { type Config, parseConfig } from '../../../config/config.ts';
import type { Env } from '../../../config/env.ts';
import { systemRandom } from '../../../ground/runtime.ts';
import { SERVER_NAME } from '../../../ground/server-info.ts';
import { type StartOptions, toolFilesOf } from '../../../tools/folder/tool-file.ts';
import { createLog } from '../../../watch/log.ts';
import { thisRuntime } from '../start.ts';
import { type TestClock, testClock } from './clock.ts';
import { type McpClient, type McpOptions, mcpClient } from './mcp-client.ts';

export const TEST_SECRET = 'a secret for tests, of more than 32 bytes';

export interface LogLine {
  time: string;
  level: string;
  event: string;
  requestId?: string;
  [field: string]: unknown;
}

export interface TestResponse {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of any shape
  readonly body: any;
}

export interface TestApp extends AsyncDisposable {
  /** The app's URL, with BASE_PATH, without a trailing slash. */
  readonly url: string;
  readonly clock: TestClock;
  /** Creates a user token that is valid for an hour of the test clock, unless `claims` say otherwise. */
  token(sub: string, claims?: Record<string, unknown>): Promise<string>;
  /** Sends POST /tools/<tool> with a JSON body. */
  call(tool: string, input?: unknown, headers?: Record<string, string>): Promise<TestResponse>;
  /** Returns a client of /mcp with a key or a user token. */
  mcp(options: McpOptions): McpClient;
  /** Creates a key for `sub`, with the scope `read` unless `input` says otherwise; returns the tool's output. */
  createKey(
    sub: string,
    input?: Record<string, unknown>,
  ): Promise<{ id: string; key: string; expiresAt: number | null }>;
  /** Resolves with everything logged so far. */
  log(): Promise<LogLine[]>;
  /** Resolves with everything logged so far, as written. */
  logText(): Promise<string>;
  close(): Promise<void>;
}

export interface TestAppOptions extends StartOptions {
  /** Replaces the environment. By default keys are in a temporary folder. */
  readonly env?: Env;
}

/** Starts an app with these tools, prompts and resources beside the server's own. It reads no folder of tools. */
export async function createTestApp({ env, ...custom }: TestAppOptions = {}): Promise<TestApp> {
  const folder = mkdtempSync(join(tmpdir(), `${SERVER_NAME}-`));
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  try {
    const { service: _, ...app } = await serveTestApp({
      env: { DATABASE_URL: `file:${join(folder, 'keys.db')}`, ...env },
      service: { toolFiles: toolFilesOf(custom) },
    });
    const close = () => app.close().finally(removeFolder);
    return { ...app, close, [Symbol.asyncDispose]: close };
  } catch (error) {
    removeFolder();
    throw error;
  }
}

/** Starts an app like `createTestApp`, with all options, but without a folder. */
export async function serveTestApp(options: {
  readonly env: Env;
  readonly clock?: TestClock;
  readonly service?: Partial<ServiceOptions>;
}): Promise<TestApp & { readonly service: Service }> {
  const config = parseConfig({ JWT_SECRET: TEST_SECRET, PORT: '0', ...options.env });
  if (!config.ok) throw new Error(config.error.join('\n'));
  const { runtime } = await thisRuntime();
  const clock = options.clock ?? testClock();
  let logged = '';
  const log = createLog({
    level: config.value.logLevel,
    clock,
    write: async (chunk) => {
      logged += new TextDecoder().decode(chunk);
    },
  });
  const opened = Promise.withResolvers<Service>();
  const server = runtime.serve({
    hostname: '127.0.0.1',
    port: 0,
    reusePort: false,
    tls: null,
    fetch: async (request, connections) => (await opened.promise).app.fetch(request, connections),
  });
  const url = `http://127.0.0.1:${server.port}${config.value.basePath}`;
  const service = await createService(config.value, {
    clock,
    random: systemRandom,
    sha256: runtime.sha256,
    log,
    listening: `http://127.0.0.1:${server.port}`,
    env: options.env,
    ...options.service,
  }).catch((error) => {
    server.kill();
    throw error;
  });
  opened.resolve(service);
  const { secret, demanded } = signingIn(config.value);

  const app: TestApp = {
    url,
    clock,
    token(sub, claims = {}) {
      const nowS = Math.floor(clock.nowMs() / 1000);
      const all = { sub, iat: nowS, exp: nowS + 3600, ...demanded, ...claims };
      return new SignJWT(all).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(secret));
    },
    async call(tool, input = {}, headers = {}) {
      const response = await fetch(`${url}/tools/${tool}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(input),
      });
      return readResponse(response);
    },
    mcp: (options) => mcpClient(url, options),
    async createKey(sub, input = {}) {
      const headers = { authorization: `Bearer ${await app.token(sub)}` };
      const created = await app.call('create_api_key', { name: 'test key', scopes: ['read'], ...input }, headers);
      if (created.status !== 200) {
        const { detail, issues } = created.body;
        throw new Error(`create_api_key responded ${created.status}: ${issues ? inWords(issues) : detail}`);
      }
      return created.body;
    },
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
    },
    [Symbol.asyncDispose]: () => app.close(),
  };
  return { ...app, service };
}

/** Returns what user tokens are signed with, and the claims that the app demands of them beside `sub` and `exp`. */
function signingIn({ jwt, jwtIssuer, jwtAudience }: Config) {
  if (jwt.kind !== 'secret') return { secret: TEST_SECRET, demanded: {} }; // made elsewhere: none from here is accepted
  const demanded = { ...(jwtIssuer !== null && { iss: jwtIssuer }), ...(jwtAudience !== null && { aud: jwtAudience }) };
  return { secret: jwt.secret, demanded };
}

/** Reads a response, and parses a JSON body. */
export async function readResponse(response: Response): Promise<TestResponse> {
  const text = await response.text();
  const json = response.headers.get('content-type')?.includes('json');
  return { status: response.status, headers: response.headers, body: json && text !== '' ? JSON.parse(text) : text };
}
