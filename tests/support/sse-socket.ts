// SSE clients on bare sockets: as many as wanted (fetch keeps to 256), and as rude as wanted.

import { postJson } from './client.ts';
import { openHttpSocket } from './http-socket.ts';
import { request } from './mcp.ts';

export type SseSocket = Awaited<ReturnType<typeof openSseSocket>>;

/** Opens GET /sse and returns when the endpoint is known. */
export async function openSseSocket(url: string, headers: Readonly<Record<string, string>> = {}) {
  const { host, pathname } = new URL(`${url}/sse`);
  const { socket, received, readUntil } = await openHttpSocket(url);
  const contains = async (what: string) => {
    await readUntil((text) => text.includes(what));
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}\r\n`);
  await contains('sessionId=');
  const path = /data: (\S+)/.exec(received())?.[1];
  return {
    /** Where to post. */
    postUrl: new URL(path ?? '', url).href,
    /** Everything received. */
    text: received,
    /** Resolves once `what` was received. */
    contains,
    /** Resolves when the server has ended the stream. */
    ended: () => contains('\r\n0\r\n\r\n'),
    /** Stops reading. */
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    /** Closes the connection in order. */
    close: () => socket.end(),
    /** Drops it without a word. */
    drop: () => socket.resetAndDestroy(),
  };
}

/** Asks for large responses, which nobody reads, until the stream is gone. */
export async function postUntilCutOff({ postUrl }: SseSocket): Promise<void> {
  for (let posts = 0; (await postJson(postUrl, request('tools/list'))).status === 202; posts += 1) {
    if (posts > 10_000) throw new Error('never cut off');
  }
}

/** The environment of a server that believes `cameFrom`. */
export const BEHIND_PROXY = { TRUST_PROXY: '1' };
export const cameFrom = (address: string) => ({ 'x-forwarded-for': address });

/** As many clients as one address may have streams. */
const STREAMS_PER_ADDRESS = 100;

/**
 * Opens `count` streams, some at a time, and does something with each. They come from as many addresses as it takes,
 * for a server that is BEHIND_PROXY.
 */
export async function manyStreams(
  url: string,
  count: number,
  use: (stream: SseSocket) => Promise<void> = async () => {},
  headers: Readonly<Record<string, string>> = {},
): Promise<SseSocket[]> {
  const streams: SseSocket[] = [];
  while (streams.length < count) {
    const some = Array.from({ length: Math.min(50, count - streams.length) }, async (_, index) => {
      const address = `192.0.2.${Math.floor((streams.length + index) / STREAMS_PER_ADDRESS)}`;
      const stream = await openSseSocket(url, { ...headers, ...cameFrom(address) });
      await use(stream);
      return stream;
    });
    streams.push(...(await Promise.all(some)));
  }
  return streams;
}

export const sessionsOf = async (url: string) =>
  ((await (await fetch(`${url}/mcp/health`)).json()) as { sessions: number }).sessions;
