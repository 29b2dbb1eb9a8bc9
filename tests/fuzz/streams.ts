// Event streams that stay open while the fuzzer posts to them, each read as its client would.

import { connect } from 'node:net';
import { postTo } from '../mcp/raw-sse.ts';
import { request } from '../mcp/support.ts';

export interface Streams {
  /** Where to post to each. */
  readonly paths: readonly string[];
  /** What came on all of them since the last time. */
  received(): string;
  close(): void;
}

export async function openStreams(url: string, tokens: readonly string[]): Promise<Streams> {
  const opened = await Promise.all(tokens.map((token) => openStream(url, token)));
  return {
    paths: opened.map(({ path }) => path),
    received: () => opened.map((stream) => stream.take()).join('\n'),
    close() {
      for (const stream of opened) stream.close();
    },
  };
}

async function openStream(url: string, token: string) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = '';
  let onPath: (path: string) => void = () => {};
  const path = new Promise<string>((resolve) => {
    onPath = resolve;
  });
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    text += chunk;
    const found = /data: (\/messages\S+)/.exec(text)?.[1];
    if (found !== undefined) onPath(found);
  });
  socket.on('error', () => {});
  socket.write(`GET /sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  const found = await path;
  const initialize = { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  await postTo(url + found, request('initialize', initialize)); // from now on no flood of streams pushes it out
  return {
    path: found,
    /** Whole events; chunk sizes stand between them, on lines of their own. */
    take() {
      const end = text.lastIndexOf('\n\n');
      const events = text.slice(0, Math.max(0, end));
      text = text.slice(Math.max(0, end));
      return events;
    },
    close: () => socket.destroy(),
  };
}
