// A server whose descriptors are all taken by connections. What would end the process for want of one is refused, and those
// whom it has are served.

import { expect, test } from 'bun:test';
import type { Socket } from 'node:net';
import { userHeaders } from '../support/client.ts';
import { openSocket, postText, sender } from '../support/http-socket.ts';
import { openFiles } from '../support/open-files.ts';
import { commandOf, logOf, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const DESCRIPTORS = 80;
const DOCUMENT = 'https://127.0.0.1:1/client.json';
const AUTHORIZE = new URLSearchParams({
  client_id: DOCUMENT,
  redirect_uri: 'https://127.0.0.1:1/back',
  response_type: 'code',
  code_challenge: 'a'.repeat(43),
  code_challenge_method: 'S256',
});

/** Opens connections until the server has no descriptor left; on Deno one, since it closes its port then. */
async function fill(url: string, pid: number): Promise<readonly Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < DESCRIPTORS) {
    const socket = await openSocket(url).catch(() => null);
    if (socket === null) break;
    socket.write('GET / HTTP/1.1\r\n'); // the system hands a connection over once something is sent on it
    sockets.push(socket);
  }
  await waitFor(() => openFiles(pid).length >= DESCRIPTORS - 1);
  return sockets;
}

test.each(['bun', 'deno'] as const)(
  'a first thread and a first fetch are refused, and no end, on %s',
  async (runtime) => {
    await using server = await startServer({
      runtime,
      env: { JWT_SECRET: TEST_SECRET, ADMIN_CLAIM: 'roles=admin', OAUTH_CLIENTS: DOCUMENT },
      command: ['sh', '-c', `ulimit -n ${DESCRIPTORS} && exec "$0" "$@"`, ...commandOf(runtime)],
    });
    const ask = await sender(server.url);
    const headers = await userHeaders('boss', TEST_SECRET, { roles: 'admin' });
    const list = (input: object) => ask(postText('/tools/admin_list_keys', JSON.stringify(input), headers));
    expect((await list({})).status).toBe(200);

    const sockets = await fill(server.url, server.pid);
    expect((await ask(`GET /authorize?${AUTHORIZE} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).status).toBe(503);
    const refused = await list({ only: 'unused' });
    expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'store_unavailable']);
    for (const socket of sockets) socket.destroy();
    await waitFor(async () => (await list({ only: 'unused' })).status === 200);

    expect(await server.stop()).toBe(0);
    const reasons = logOf(server).map(({ event, reason }) => `${event}: ${reason}`);
    expect(reasons).toContainEqual(expect.stringMatching(/^key store out of reach: EMFILE/));
  },
);
