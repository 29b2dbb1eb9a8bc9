// HTTP written by hand on a socket, for what fetch does not send.

import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type ParsedResponse, parseResponses } from './http-responses.ts';

export type HttpSocket = Awaited<ReturnType<typeof openHttpSocket>>;

/** Opens a connection and resolves when it can be written to; with `ca` over TLS, to a server with that certificate. */
export function openSocket(url: string, ca?: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const where = { host: hostname, port: Number(port) };
  return new Promise((resolve, reject) => {
    const opened = () => resolve(socket);
    const socket: Socket = ca === undefined ? connect(where, opened) : connectTls({ ...where, ca }, opened);
    socket.on('error', reject); // once it is open, an error is a reset, and shows as `close`
  });
}

/** Whether the server proves to a new connection that it has this certificate. */
export async function isShown(url: string, { cert }: { readonly cert: string }): Promise<boolean> {
  const socket = await openSocket(url, cert).catch(() => null);
  socket?.destroy();
  return socket !== null;
}

export async function openHttpSocket(url: string, ca?: string) {
  const socket = await openSocket(url, ca);
  let received = '';
  let check = () => {};
  let open = true;
  const closed = new Promise<void>((done) => {
    socket.once('close', () => {
      open = false;
      done();
    });
  });
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    check();
  });
  return {
    socket,
    /** Everything received so far: bytes, one character each. */
    received: () => received,
    /** Resolves once what was received satisfies `condition`; rejects when the connection closes before. */
    readUntil: (condition: (received: string) => boolean) =>
      new Promise<string>((found, lost) => {
        check = () => {
          if (condition(received)) found(received);
          else if (!open) lost(new Error(`the connection closed after: ${received}`));
        };
        void closed.then(() => check());
        check();
      }),
    closed,
  };
}

/** Sends `chunks` on a connection of its own and returns the first whole response. */
export async function sendOverSocket(
  url: string,
  ...chunks: readonly (string | Uint8Array)[]
): Promise<ParsedResponse> {
  const connection = await openHttpSocket(url);
  try {
    for (const chunk of chunks) connection.socket.write(chunk);
    return parseResponse(await connection.readUntil(isWhole));
  } finally {
    connection.socket.destroy();
  }
}

/** Sends one request after the other on one connection. Rejects if that closes before the response. */
export async function sender(url: string): Promise<(request: string) => Promise<ParsedResponse>> {
  const connection = await openHttpSocket(url);
  return async (request) => {
    const before = connection.received().length;
    connection.socket.write(request);
    return parseResponse((await connection.readUntil((all) => isWhole(all.slice(before)))).slice(before));
  };
}

/** True once the first response is there. */
export const isWhole = (received: string): boolean => parseResponses(received, false).responses.length > 0;

/** The first response. */
export function parseResponse(received: string): ParsedResponse {
  const [response] = parseResponses(received, false).responses;
  if (response === undefined) throw new Error(`half a response: ${received}`);
  return response;
}

/** A POST with a JSON body, as text. */
export function postText(path: string, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const all = {
    Host: 'localhost',
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
}
