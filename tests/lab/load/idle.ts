// Many connections and event streams that are only open, while a few clients are busy.

import { join } from 'node:path';
import { callOver, postJson, userOn } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { type HttpSocket, isWhole, openHttpSocket } from '../../support/http-socket.ts';
import { request } from '../../support/mcp.ts';
import { openFiles } from '../../support/open-files.ts';
import { BEHIND_PROXY, manyStreams, sessionsOf } from '../../support/sse-socket.ts';
import { msOf } from '../bench/measure.ts';
import { startOurs } from '../bench/ours.ts';
import { createLatencies, type Latencies } from '../soak/latencies.ts';

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const AT_A_TIME = 200;
const HOT_CLIENTS = 16;
/** Connections that this process's own fetch keeps for reuse. */
export const FETCH_POOL = 256;
const FILES_CLOSED_WITHIN_MS = 10_000;

/** Files one process may have open here. */
export const openFilesMax = () => Number(Bun.spawnSync(['sh', '-c', 'ulimit -n']).stdout.toString());

/**
 * Latencies of the hot path beside the open connections, and files that the server had open before, with all of them, and
 * after they were closed. Throws when any connection, stream or call doesn't get what it should.
 */
export async function idleLoad(options: { connections: number; streams: number; busyMs: number }) {
  await using server = await startOurs(join(temporaryFolder(), 'keys.db'), BEHIND_PROXY);
  const { url } = server;
  const before = openFiles(server.pid).length;
  const connections: HttpSocket[] = [];
  while (connections.length < options.connections) {
    const count = Math.min(AT_A_TIME, options.connections - connections.length);
    connections.push(...(await Promise.all(Array.from({ length: count }, () => sayHello(url)))));
  }
  const streams = await manyStreams(url, options.streams);
  const during = openFiles(server.pid).length;
  const latencies = await busy(url, options.busyMs);
  const residentMb = server.residentMb();

  for (let from = 0; from < connections.length; from += AT_A_TIME)
    await Promise.all(connections.slice(from, from + AT_A_TIME).map(sayHelloAgain));
  if ((await sessionsOf(url)) !== options.streams) throw new Error('a stream was lost');
  for (let from = 0; from < streams.length; from += AT_A_TIME)
    await Promise.all(
      streams.slice(from, from + AT_A_TIME).map(async (stream) => {
        await postJson(stream.postUrl, request('ping'));
        await stream.contains('"result":{}');
      }),
    );

  for (const { socket } of connections) socket.destroy();
  for (const stream of streams) stream.drop();
  const closedMs = performance.now();
  while (openFiles(server.pid).length > before + FETCH_POOL && performance.now() - closedMs < FILES_CLOSED_WITHIN_MS)
    await Bun.sleep(50);
  return { latencies, residentMb, openFiles: [before, during, openFiles(server.pid).length] as const };
}

async function sayHello(url: string): Promise<HttpSocket> {
  const connection = await openHttpSocket(url);
  connection.socket.write(GET);
  await connection.readUntil(isWhole);
  return connection;
}

async function sayHelloAgain(connection: HttpSocket): Promise<void> {
  connection.socket.write(GET);
  await connection.readUntil((text) => text.split('HTTP/1.1 200').length === 3 && isWhole(text));
}

async function busy(url: string, forMs: number): Promise<Latencies> {
  const { body } = await (await userOn({ url })).create();
  const latencies = createLatencies();
  const untilMs = performance.now() + forMs;
  const client = async () => {
    while (performance.now() < untilMs) {
      const use = async () => {
        const response = await callOver(url, 'get_data', {}, { 'x-api-key': body.key });
        if (response.status !== 200 || response.body.owner !== 'alice')
          throw new Error(`get_data responded ${response.status}`);
      };
      latencies.add(await msOf(use));
    }
  };
  await Promise.all(Array.from({ length: HOT_CLIENTS }, client));
  return latencies;
}
