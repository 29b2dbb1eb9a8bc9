// Event streams that stay open while the fuzzer posts to them, each read as its client would.

import { request } from '../support/mcp.ts';
import type { Target } from './settings.ts';

export interface Streams {
  /** Where to post to each. */
  readonly paths: readonly string[];
  /** What came on all of them since the last call. */
  received(): string;
  close(): void;
}

export async function openStreams(target: Target, tokens: readonly string[]): Promise<Streams> {
  const opened = await Promise.all(tokens.map((token) => openStream(target, token)));
  return {
    paths: opened.map(({ path }) => path),
    received: () => opened.map((stream) => stream.take()).join('\n'),
    close() {
      for (const stream of opened) stream.close();
    },
  };
}

async function openStream(target: Target, token: string) {
  const socket = await target.connect();
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
  socket.write(`GET /sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  const found = await path;
  const initialize = { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  // From now on no flood of streams pushes it out.
  await target.fetch(found, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(request('initialize', initialize)),
  });
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
