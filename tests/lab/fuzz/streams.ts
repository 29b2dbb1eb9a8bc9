// Event streams that stay open while the fuzzer posts to them, each read as its client would.

import { request } from '../../support/mcp.ts';
import type { Target } from './settings.ts';

export async function openStreams(target: Target, tokens: readonly string[]) {
  const opened = await Promise.all(tokens.map((token) => openStream(target, token)));
  return {
    /** Where to post to each. */
    paths: opened.map(({ path }) => path),
    /** What came on all of them since the last call. */
    received: () => opened.map((stream) => stream.take()).join('\n'),
    close() {
      for (const stream of opened) stream.close();
    },
  };
}

async function openStream(target: Target, token: string) {
  const socket = await target.connect();
  let unread = ''; // from the end of the last whole chunk on
  let text = '';
  let onPath: (path: string) => void = () => {};
  const path = new Promise<string>((resolve) => {
    onPath = resolve;
  });
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    unread += chunk;
    const { data, rest } = inChunks(unread);
    text += data;
    unread = rest;
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
    /** Whole events. */
    take() {
      const end = text.lastIndexOf('\n\n');
      const events = text.slice(0, Math.max(0, end));
      text = text.slice(Math.max(0, end));
      return events;
    },
    close: () => socket.destroy(),
  };
}

/** What stands in the whole chunks of a response (RFC 9112 §7.1), whose head is passed over; a large event takes several. */
function inChunks(text: string): { readonly data: string; readonly rest: string } {
  let at = text.startsWith('HTTP/') ? text.indexOf('\r\n\r\n') + 4 : 0;
  if (text.startsWith('HTTP/') && at === 3) return { data: '', rest: text };
  let data = '';
  for (;;) {
    const sizeEnd = text.indexOf('\r\n', at);
    const size = Number.parseInt(text.slice(at, sizeEnd), 16);
    const end = sizeEnd + 2 + size;
    if (sizeEnd === -1 || !(size > 0) || text.length < end + 2) return { data, rest: text.slice(at) };
    data += text.slice(sizeEnd + 2, end);
    at = end + 2;
  }
}
