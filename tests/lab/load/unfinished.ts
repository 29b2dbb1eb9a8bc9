// Clients that announce a body and never send its last byte: what that costs the server, and others beside them.

import { callOver, userHeaders } from '../../support/client.ts';
import { type HttpSocket, openHttpSocket, postText } from '../../support/http-socket.ts';
import { request } from '../../support/mcp.ts';
import { commandOf, peakResidentMbOf, type ServerOptions, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const BODY_BYTES = 1024 * 1024;
const HONEST_CALLS = 50;

export interface UnfinishedReport {
  /** HTTP statuses that the clients got meanwhile. */
  readonly statuses: readonly string[];
  /** The most that was resident at any time. */
  readonly residentMb: number;
  /** Of a key's calls beside them. */
  readonly medianMs: number;
}

const unfinished = () => postText('/mcp', ' '.repeat(BODY_BYTES - 1), { 'Content-Length': String(BODY_BYTES) });

/** The status of an honest message of 100 KB. */
async function longMessage(url: string): Promise<number> {
  const { status } = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request('ping', { padding: 'x'.repeat(100_000) })),
  });
  return status;
}

/** Throws when an honest call, or then a long message, does not get the right response. */
export async function unfinishedBodies(
  clients: number,
  { runtime = 'bun' }: Pick<ServerOptions, 'runtime'> = {},
): Promise<UnfinishedReport> {
  await using server = await startServer({
    runtime,
    command: commandOf(runtime),
    env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' },
  });
  const user = await userHeaders('alice');
  const { body } = await callOver(server.url, 'create_api_key', { name: 'n', scopes: ['read'] }, user);
  const bodyWithoutEnd = unfinished();
  const slow: HttpSocket[] = [];
  try {
    for (let index = 0; index < clients; index += 1) {
      const connection = await openHttpSocket(server.url);
      connection.socket.write(bodyWithoutEnd);
      slow.push(connection);
    }
    const tookMs: number[] = [];
    for (let call = 0; call < HONEST_CALLS; call += 1) {
      const startedMs = performance.now();
      const { status } = await callOver(server.url, 'get_data', {}, { 'x-api-key': body.key });
      if (status !== 200) throw new Error(`an honest call got ${status}`);
      tookMs.push(performance.now() - startedMs);
    }
    // As soon as the clients have stood still for a moment.
    await waitFor(async () => (await longMessage(server.url)) === 200);
    return {
      statuses: [...new Set(slow.map((connection) => connection.received().slice(9, 12)))].sort(),
      residentMb: peakResidentMbOf(server.pid),
      medianMs: tookMs.sort((a, b) => a - b)[HONEST_CALLS / 2] ?? Number.NaN,
    };
  } finally {
    for (const { socket } of slow) socket.destroy();
  }
}
