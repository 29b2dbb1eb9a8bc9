// Many clients that ask for large responses and read none of them: what that costs the server, and others beside them.

import { userHeaders } from '../../support/client.ts';
import { type DeafClient, deafClient } from '../../support/deaf-client.ts';
import { postText } from '../../support/http-socket.ts';
import { peakResidentMbOf, type Runtime, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { honestCaller } from './honest.ts';
import { databaseIn, folderWithKeys, USER } from './unread-streams.ts';

interface Unread {
  /** Where the server's data is; an empty folder unless given. */
  readonly folder?: () => Promise<string>;
  /** What the clients send, in turn. */
  readonly requests: () => Promise<readonly string[]>;
}

const USER_LIST = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_api_keys', arguments: {} } };
const OTHERS = Array.from({ length: 19 }, (_, index) => `user ${index}`);
/** A thousand keys with the most scopes that they may have, for each user. */
const largestLists = () => folderWithKeys(1000, 2000, OTHERS);

export const UNREAD: Readonly<Record<string, Unread>> = {
  'a batch that reads a page a hundred times': { requests: async () => [postText('/mcp', pageBatch())] },
  'the largest list, over REST': {
    folder: largestLists,
    requests: () => restLists([USER]),
  },
  'the largest list, over MCP': {
    folder: largestLists,
    requests: () => mcpLists([USER]),
  },
};

export const UNREAD_OF_MANY: Readonly<Record<string, Unread>> = {
  'the largest lists of 20 users, over REST': { folder: largestLists, requests: () => restLists([USER, ...OTHERS]) },
  'the largest lists of 20 users, over MCP': { folder: largestLists, requests: () => mcpLists([USER, ...OTHERS]) },
};

const restLists = (users: readonly string[]) => listsOf(users, '/tools/list_api_keys', '{}');
const mcpLists = (users: readonly string[]) => listsOf(users, '/mcp', JSON.stringify(USER_LIST));

const listsOf = (users: readonly string[], path: string, body: string): Promise<string[]> =>
  Promise.all(
    users.map(async (user) => postText(path, body, { Authorization: (await userHeaders(user)).authorization })),
  );

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

/**
 * The statuses that the clients got, the most that was resident at any time, with none of them reading, and how long a
 * key's calls took beside them. Throws when one of these does not get the right response.
 */
export async function unread(what: Unread, clients: number, runtime: Runtime = 'bun') {
  const folder = await what.folder?.();
  await using server = await startServer({
    runtime,
    env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', ...(folder !== undefined && databaseIn(folder)) },
  });
  const requests = await what.requests();
  const medianMsOf = await honestCaller(server.url);
  const deaf: DeafClient[] = [];
  const statuses = new Set<string>();
  try {
    for (let index = 0; index < clients; index += 1)
      deaf.push(deafClient(server.url, requests[index % requests.length] ?? ''));
    for (const client of deaf) statuses.add(client.read('HTTP/1.1 200'.length).slice(-3));
    const medianMs = await medianMsOf();
    return { statuses: [...statuses].sort(), residentMb: peakResidentMbOf(server.pid), medianMs };
  } finally {
    for (const client of deaf) client[Symbol.dispose]();
  }
}
