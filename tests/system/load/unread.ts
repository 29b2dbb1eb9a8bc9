// Many clients that ask for large responses and read none of them: what that costs the server, and others beside them.

import { callOver, userHeaders } from '../../support/client.ts';
import { type DeafClient, deafClient } from '../../support/deaf-client.ts';
import { rawPost } from '../../support/raw.ts';
import { type Runtime, residentMbOf, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { databaseIn, folderWithKeys, USER } from './unread-streams.ts';

const HONEST_CALLS = 50;

export interface UnreadReport {
  /** HTTP statuses that the clients got. */
  readonly statuses: readonly string[];
  /** With all of them connected and none of them reading. */
  readonly residentMb: number;
  /** Of a key's calls beside them. */
  readonly medianMs: number;
}

interface Unread {
  /** Where the server's data is; an empty folder unless given. */
  readonly folder?: () => Promise<string>;
  /** What the clients send. */
  readonly request: () => Promise<string>;
}

const USER_LIST = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_api_keys', arguments: {} } };
/** A thousand keys with the most scopes that they may have. */
const largestLists = () => folderWithKeys(1000, 2000);

export const UNREAD: Readonly<Record<string, Unread>> = {
  'a batch that reads a page a hundred times': { request: async () => rawPost('/mcp', pageBatch()) },
  'the largest list, over REST': {
    folder: largestLists,
    request: async () => rawPost('/tools/list_api_keys', '{}', await authorization()),
  },
  'the largest list, over MCP': {
    folder: largestLists,
    request: async () => rawPost('/mcp', JSON.stringify(USER_LIST), await authorization()),
  },
};

const authorization = async () => ({ Authorization: (await userHeaders(USER)).authorization });

function pageBatch(): string {
  return JSON.stringify(
    Array.from({ length: 100 }, (_, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'resources/read',
      params: { uri: 'ui://widget/api-keys-list.html' },
    })),
  );
}

/** Throws when an honest call beside the clients is not answered as it should be. */
export async function unread(what: Unread, clients: number, runtime: Runtime = 'bun'): Promise<UnreadReport> {
  const folder = await what.folder?.();
  await using server = await startServer({
    runtime,
    env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', ...(folder !== undefined && databaseIn(folder)) },
  });
  const request = await what.request();
  const { body } = await callOver(
    server.url,
    'create_api_key',
    { name: 'n', scopes: ['read'] },
    await userHeaders('alice'),
  );
  const deaf: DeafClient[] = [];
  const statuses = new Set<string>();
  try {
    for (let index = 0; index < clients; index += 1) deaf.push(deafClient(server.url, request));
    for (const client of deaf) statuses.add(client.read('HTTP/1.1 200'.length).slice(-3));
    const tookMs: number[] = [];
    for (let call = 0; call < HONEST_CALLS; call += 1) {
      const startedMs = performance.now();
      const { status } = await callOver(server.url, 'get_data', {}, { 'x-api-key': body.key });
      if (status !== 200) throw new Error(`get_data answered ${status}`);
      tookMs.push(performance.now() - startedMs);
    }
    const medianMs = tookMs.sort((a, b) => a - b)[HONEST_CALLS / 2] ?? Number.NaN;
    return { statuses: [...statuses].sort(), residentMb: residentMbOf(server.pid), medianMs };
  } finally {
    for (const client of deaf) client[Symbol.dispose]();
  }
}
