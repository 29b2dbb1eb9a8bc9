// A stop under clients that open a connection for each call, as proxies do once they are told to close those they have: a
// connection that is there when the socket is closed, and not accepted yet, is reset, and with it a call is lost. Alone,
// because it shows only while the server is never idle.

import { expect, test } from 'bun:test';
import { connect } from 'node:net';
import { userOn } from '../../support/client.ts';
import { postText } from '../../support/http-socket.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const STOPS = 5;
const CLIENTS = 16;
/** Before each stop, so that everybody is at work. */
const RESPONSES_MIN = 2000;

/** Sends a request on a connection of its own. */
function once(url: string, request: string): Promise<'answered' | 'refused' | 'lost'> {
  const { hostname: host, port } = new URL(url);
  return new Promise((resolve) => {
    let isConnected = false;
    const socket = connect({ host, port: Number(port) }, () => {
      isConnected = true;
      socket.write(request);
    });
    const gone = () => resolve(isConnected ? 'lost' : 'refused');
    socket.on('error', gone).on('close', gone);
    socket.on('data', () => {
      resolve('answered');
      socket.destroy();
    });
  });
}

test('no call is lost while the server stops: it gets a response, or can not connect', async () => {
  const counts = { answered: 0, refused: 0, lost: 0 };
  for (let stop = 1; stop <= STOPS; stop += 1) {
    await using server = await startServer({
      env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'error' },
    });
    const { key } = (await (await userOn(server)).create()).body;
    const request = postText('/tools/get_data', '{}', { 'X-API-Key': key });
    const enough = counts.answered + RESPONSES_MIN;
    let stopped: Promise<number> | undefined;
    const client = async () => {
      for (let end: keyof typeof counts = 'answered'; end !== 'refused'; ) {
        end = await once(server.url, request);
        counts[end] += 1;
        if (counts.answered >= enough) stopped ??= server.stop();
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    expect(await stopped).toBe(0);
  }
  expect(counts).toEqual({ answered: expect.any(Number), refused: STOPS * CLIENTS, lost: 0 });
}, 180_000);
