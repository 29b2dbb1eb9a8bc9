// Event streams that nobody reads, and what is sent to them: what that costs the server, and others beside it.

import { join } from 'node:path';
import { postJson, userHeaders, userOn } from '../../support/client.ts';
import { openDatabase } from '../../support/database-client.ts';
import { type DeafClient, deafClient } from '../../support/deaf-client.ts';
import { diskFolder, fill } from '../../support/folder.ts';
import { postText } from '../../support/http-socket.ts';
import { call, type HeaderMap, request } from '../../support/mcp.ts';
import { type Runtime, residentMbOf, type ServerProcess, startServer } from '../../support/server-process.ts';
import { BEHIND_PROXY, cameFrom } from '../../support/sse-socket.ts';
import { createTestApp, TEST_SECRET } from '../../support/test-app.ts';
import { median, msOf } from '../bench/measure.ts';

export interface StreamsReport {
  /** The most that was resident at any time. */
  readonly residentMb: number;
  /** Of a key's calls beside the streams. */
  readonly medianMs: number;
  readonly calls: number;
}

const WATCHED_MS = 2000;
const LOOK_EVERY_MS = 50;
const AT_A_TIME = 16;
/** As many as one address may have, and one owner. */
const STREAMS_EACH = 100;
export const USER = 'the user with the large list';

/** A tool that reports progress, and then responds with 400 KB. */
const LARGE_TOOL = `import { defineTool, ok, v } from 'mcp-key-server';
export default () => defineTool(() => ok({}), {
  name: 'large', title: 'large', description: 'large',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  input: v.strictObject({}),
  async run(_input, { progress }) {
    progress(1);
    await new Promise((resolve) => setTimeout(resolve, 10));
    return ok({ content: [{ type: 'text', text: 'x'.repeat(400_000) }] });
  },
});
`;

const PAGE = 'ui://widget/api-keys-list.html';
const messagesFrom = (count: number, message: object) => Array.from({ length: count }, (_, id) => ({ ...message, id }));

/** What is done with each stream; `user` are the headers of a user with a list of 400 KB. */
const USES: Readonly<Record<string, (url: string, index: number, user: HeaderMap) => Promise<DeafClient>>> = {
  async 'of /sse, used without a credential'(url, index) {
    const { client, postUrl } = openDeaf(url, index, {});
    for (const message of messagesFrom(20, request('resources/read', { uri: PAGE }))) await postJson(postUrl, message);
    return client;
  },
  async 'of /sse, with a list of keys'(url, index, user) {
    const { client, postUrl } = openDeaf(url, index, user);
    await postJson(postUrl, call('list_api_keys'), user);
    return client;
  },
  async 'of progress on /mcp, with a large result'(url) {
    const body = JSON.stringify(call('large', {}, { _meta: { progressToken: 1 } }));
    const client = deafClient(url, postText('/mcp', body, { Accept: 'application/json, text/event-stream' }));
    readUntil(client, /"progress":1/); // the result follows, and is not read
    return client;
  },
};
export const STREAM_USES = Object.keys(USES);

/** Opens a stream, reads where to post, and nothing more. */
function openDeaf(url: string, index: number, headers: HeaderMap) {
  const address = cameFrom(`192.0.2.${Math.floor(index / STREAMS_EACH)}`);
  const lines = Object.entries({ ...headers, ...address }).map(([name, value]) => `${name}: ${value}\r\n`);
  const client = deafClient(url, `GET /sse HTTP/1.1\r\nHost: localhost\r\n${lines.join('')}\r\n`);
  const path = /data: (\S+)/.exec(readUntil(client, /data: \S+\n/))?.[1];
  return { client, postUrl: url + path };
}

function readUntil(client: DeafClient, pattern: RegExp): string {
  for (let text = ''; ; ) {
    const more = client.read(1000);
    text += more;
    if (pattern.test(text)) return text;
    if (more === '' || text.includes('"error"')) throw new Error(`the stream ended after ${text}`);
  }
}

/**
 * A folder with a database in which USER has `keys` keys, with scopes of `scopeChars` characters together, and so has
 * each of `others`.
 */
export async function folderWithKeys(
  keys: number,
  scopeChars: number,
  others: readonly string[] = [],
): Promise<string> {
  const folder = diskFolder();
  await using app = await createTestApp({ store: { env: () => databaseIn(folder), async [Symbol.asyncDispose]() {} } });
  const scopes = Array.from({ length: scopeChars / 100 }, (_, index) => `${index}`.padEnd(100, 'x'));
  for (let index = 0; index < keys; index += 1) {
    await app.createKey(USER, { name: 'n', scopes });
  }
  using database = openDatabase(databaseIn(folder).DATABASE_URL);
  for (const other of others) await database.execute({ sql: COPY_KEYS, args: [other, USER] });
  return folder;
}

const COPY_KEYS = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), ?1, name, lower(hex(randomblob(32))), scopes, active, created_at_ms
FROM api_keys WHERE user_id = ?2`;

export const databaseIn = (folder: string) => ({ DATABASE_URL: `file:${join(folder, 'keys.db')}` });

/** Has a key's calls go on, and memory watched, while `attack` runs and for a while after it. */
async function watch(server: ServerProcess, attack: () => Promise<void>): Promise<StreamsReport> {
  const somebody = await userOn(server, 'somebody else');
  const { body } = await somebody.create();
  let residentMb = 0;
  const look = setInterval(() => {
    residentMb = Math.max(residentMb, residentMbOf(server.pid));
  }, LOOK_EVERY_MS);
  let over = false;
  const tookMs: number[] = [];
  async function callOn() {
    while (!over) {
      const use = async () => {
        const status = await somebody.use(body.key);
        if (status !== 200) throw new Error(`get_data responded ${status}`);
      };
      tookMs.push(await msOf(use));
      await Bun.sleep(5);
    }
  }
  const calls = callOn();
  try {
    await attack();
    await Bun.sleep(WATCHED_MS);
  } finally {
    over = true;
    await calls;
    clearInterval(look);
  }
  return { residentMb, medianMs: median(tookMs), calls: tookMs.length };
}

const startOn = (folder: string, runtime: Runtime, env: Readonly<Record<string, string>> = {}) =>
  startServer({
    runtime,
    env: {
      JWT_SECRET: TEST_SECRET,
      RATE_LIMIT_REQUESTS: '0',
      LOG_LEVEL: 'warn',
      ...BEHIND_PROXY,
      ...databaseIn(folder),
      ...env,
    },
  });

/** Many streams, each with several hundred KB for a client that reads none of it. */
export async function unreadStreams(use: string, streams: number, runtime: Runtime): Promise<StreamsReport> {
  const toolsDir = fill(diskFolder(), { 'large.ts': LARGE_TOOL }); // Deno opens nothing below /dev/shm
  const owners = Array.from({ length: Math.ceil(streams / STREAMS_EACH) }, (_, number) => `owner ${number}`);
  await using server = await startOn(await folderWithKeys(200, 900, owners), runtime, { TOOLS_DIR: toolsDir });
  const users = await Promise.all(owners.map((owner) => userHeaders(owner)));
  const deaf: DeafClient[] = [];
  try {
    return await watch(server, async () => {
      while (deaf.length < streams) {
        const some = Array.from({ length: Math.min(AT_A_TIME, streams - deaf.length) }, (_, number) =>
          USES[use]?.(server.url, deaf.length + number, users[(deaf.length + number) % users.length] ?? {}),
        );
        for (const client of await Promise.all(some)) if (client !== undefined) deaf.push(client);
      }
    });
  } finally {
    for (const client of deaf) client[Symbol.dispose]();
  }
}

/** One stream that nobody reads, to which lists are posted at once. Also: what it says when it is read in the end. */
export async function unreadLists(
  folder: string,
  posts: number,
  runtime: Runtime,
): Promise<StreamsReport & { readonly read: string }> {
  await using server = await startOn(folder, runtime);
  const user = await userHeaders(USER);
  const { client, postUrl } = openDeaf(server.url, 0, user);
  using deaf = client;
  const report = await watch(server, async () => {
    const messages = messagesFrom(posts, call('list_api_keys'));
    await Promise.all(messages.map((message) => postJson(postUrl, message, user)));
  });
  await postJson(postUrl, request('ping', undefined, 'last'), user);
  return { ...report, read: readUntil(deaf, /"id":"last"/) };
}
