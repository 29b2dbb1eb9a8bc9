// Servers that share a port and a file, connections to each of them, and clients at work.

import { userHeaders } from './client.ts';
import { temporaryFolder } from './folder.ts';
import { postText, sender } from './http-socket.ts';
import { startServer } from './server-process.ts';
import { freePorts } from './sqld.ts';
import { TEST_SECRET } from './test-app.ts';
import { waitFor } from './wait-for.ts';

/** What starts them. Whoever disposes of `started` ends them. */
export function sharing(started: AsyncDisposableStack, more: Record<string, string> = {}) {
  const [port] = freePorts(1);
  const folder = temporaryFolder();
  const env = { JWT_SECRET: TEST_SECRET, PORT: String(port), REUSE_PORT: '1', ...more };
  const start = async () => started.use(await startServer({ folder, env, runtime: 'bun' }));
  return { url: `http://127.0.0.1:${port}`, start, startTwo: () => Promise.all([start(), start()]) };
}

export type Connection = Awaited<ReturnType<typeof connected>>;

const HEALTH = 'GET /mcp/health HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** A connection, which stays with one process, and which that is. */
export async function connected(url: string) {
  const send = await sender(url);
  const ask = async (request: string) => {
    const { status, headers, body } = await send(request);
    return { status, closes: headers.get('connection') === 'close', body: JSON.parse(body) };
  };
  const { closes, body } = await ask(HEALTH);
  const call = (tool: string, input: unknown, headers: Record<string, string>) =>
    ask(postText(`/tools/${tool}`, JSON.stringify(input), headers));
  return { instance: body.instance as string, closes, call };
}

/** A connection to each of two processes. */
export async function connectedToBoth(url: string): Promise<readonly [Connection, Connection]> {
  const first = await connected(url);
  let second = first;
  while (second.instance === first.instance) second = await connected(url);
  return [first, second];
}

export async function makeKey({ call }: Connection) {
  const { body } = await call('create_api_key', { name: 'n', scopes: ['read'] }, await userHeaders('alice'));
  return { id: body.id as string, headers: { 'x-api-key': body.key as string } };
}

export const CLIENTS = 16;
const RESPONSES_BETWEEN = 200;

/**
 * Clients that use a key: `kept` on connections that are kept alive until a response says otherwise, else each call on a
 * connection of its own. `lost` has, for each request without a response, the process that it was sent to, or null.
 */
export async function clientsOf(url: string, kept: boolean) {
  const { headers } = await makeKey(await connected(url));
  const lost: (string | null)[] = [];
  const busy = new Set<number>();
  let answered = 0;
  let done = false;

  async function work(client: number): Promise<void> {
    while (!done) {
      let instance: string | null = null;
      try {
        const { call, ...connection } = await connected(url);
        instance = connection.instance;
        for (let { closes } = connection; !closes && !done; ) {
          const response = await call('get_data', {}, headers);
          if (response.status !== 200) throw new Error(`status ${response.status}`);
          busy.add(client);
          answered += 1;
          closes = response.closes || !kept;
        }
      } catch {
        lost.push(instance);
      }
    }
  }

  const all = Array.from({ length: CLIENTS }, (_, client) => work(client));
  await waitFor(() => busy.size === CLIENTS);
  return {
    lost,
    /** Resolves when many more calls were answered. */
    async more() {
      const before = answered;
      await waitFor(() => answered >= before + RESPONSES_BETWEEN);
    },
    async end() {
      done = true;
      await Promise.all(all);
    },
  };
}
