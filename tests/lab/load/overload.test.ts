// More connections than the server may open; and idle ones, with streams, which cost the busy ones nothing but memory: a
// tenth of idle.long.ts.

import { expect, test } from 'bun:test';
import { isWhole, openHttpSocket } from '../../support/http-socket.ts';
import { openFiles } from '../../support/open-files.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { FETCH_POOL, idleLoad, openFilesMax } from './idle.ts';

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const OPEN_FILES_MAX = 200;

const canLimit = Bun.which('prlimit') !== null;

test.skipIf(!canLimit)(
  'out of files: open connections are served, and it recovers when others close',
  async () => {
    await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
    const early = await openHttpSocket(server.url);
    early.socket.write(GET); // the system hands a connection over once something is sent on it
    await early.readUntil(isWhole);
    Bun.spawnSync(['prlimit', '--pid', String(server.pid), `--nofile=${OPEN_FILES_MAX}`]);
    const many = await Promise.all(Array.from({ length: 2 * OPEN_FILES_MAX }, () => openHttpSocket(server.url)));
    for (const { socket } of many) socket.write(GET);
    await waitFor(() => openFiles(server.pid).length >= OPEN_FILES_MAX - 5);
    early.socket.write(GET);
    await early.readUntil((text) => text.split('HTTP/1.1 200').length === 3);
    for (const { socket } of many) socket.destroy();
    const late = await openHttpSocket(server.url);
    late.socket.write(GET);
    expect(await late.readUntil(isWhole)).toStartWith('HTTP/1.1 200');
  },
  180_000,
);

const CONNECTIONS = 1000;
const STREAMS = 100;
const enough = openFilesMax() > 1.2 * (CONNECTIONS + STREAMS);
if (!enough) console.warn(`idle connections are not tried: a process may open ${openFilesMax()} files here`);

test.skipIf(!enough)(
  `${CONNECTIONS} idle connections and ${STREAMS} streams beside the hot path`,
  async () => {
    const { latencies, openFiles } = await idleLoad({ connections: CONNECTIONS, streams: STREAMS, busyMs: 1000 });
    const [before, during, after] = openFiles;
    expect(latencies.count).toBeGreaterThan(100);
    expect(during).toBeGreaterThanOrEqual(before + CONNECTIONS + STREAMS);
    expect(after).toBeLessThanOrEqual(before + FETCH_POOL);
  },
  180_000,
);
