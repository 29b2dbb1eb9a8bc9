// A TCP proxy in front of a libSQL server: loses responses and
// connections, counts; and can be as far away as one likes.

import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** In a request: reads rows of a table to copy them. */
export const readOf = (table: string) => `FROM \\"${table}\\" t`;
/** With this a replica takes over keys; while it is refused, the replica stays as it is. */
export const TAKING = readOf('api_keys');
const STATEMENT = 'POST /v2/pipeline';

/** `delayMs`: how much later each response comes. */
export async function startProxy(target: string, { delayMs = 0 } = {}) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let refused: string | null = null;
  let distorted: { readonly text: string; readonly lateMs: number } | null = null;
  let distortions = 0;
  let statements = 0;
  /** What to do with the connection of the next request that holds `text`. */
  let next: { readonly text: string; act(client: Socket, server: Socket): void } | null = null;
  const requests: string[] = [];

  function loseResponse(client: Socket, server: Socket): void {
    server.unpipe(client);
    server.once('data', () => client.destroy()).resume();
  }

  function sendAgain(request: string, lateMs: number): void {
    setTimeout(() => {
      const again = connect(Number(port), hostname, () => again.write(request));
      sockets.add(again);
      again.on('error', () => {}).on('close', () => sockets.delete(again));
      again.once('data', () => again.destroy());
    }, lateMs);
  }

  const listener = createServer((client) => {
    const server = connect(Number(port), hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        other.destroy();
        sockets.delete(socket);
      });
    }
    client.on('data', (chunk) => {
      const request = chunk.toString();
      requests.push(request);
      if (next !== null && request.includes(next.text)) {
        next.act(client, server);
        next = null;
      }
      if (distorted !== null && request.includes(distorted.text)) {
        distortions += 1;
        if (distortions % 3 === 1) loseResponse(client, server);
        if (distortions % 3 === 2) sendAgain(request, distorted.lateMs);
      }
      if (refused !== null && request.includes(refused)) client.destroy();
      if (request.startsWith(STATEMENT)) statements += 1;
    });
    client.pipe(server);
    if (delayMs === 0) server.pipe(client);
    else server.on('data', (chunk) => void setTimeout(() => client.destroyed || client.write(chunk), delayMs));
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    /** Requests with statements so far. */
    statements: () => statements,
    /** The next statement with this text is carried out, and its connection dies instead of bringing the response. */
    loseResponseTo(text: string) {
      next = { text, act: loseResponse };
    },
    /** The next statement with this text gets its response when `release` is called; `made` resolves when it is there. */
    delayResponseTo(text: string) {
      const made = Promise.withResolvers<void>();
      let release = () => {};
      next = {
        text,
        act(client, server) {
          server.unpipe(client);
          server.once('readable', made.resolve);
          release = () => void server.pipe(client);
        },
      };
      return { made: made.promise, release: () => release() };
    },
    /**
     * The connection of the next statement with this text dies, and it arrives when the result is called, which waits for
     * that.
     */
    holdUp(text: string) {
      const corked = Promise.withResolvers<Socket>();
      next = {
        text,
        act(client, server) {
          server.cork();
          client.unpipe(server).removeAllListeners('close').destroy();
          corked.resolve(server);
        },
      };
      return async () => {
        const server = await corked.promise;
        const response = new Promise((resolve) => server.once('data', resolve));
        server.uncork();
        await response;
      };
    },
    /** From now on the connection of each statement with this text dies; with null, no longer. */
    refuse(text: string | null) {
      refused = text;
    },
    /**
     * From now on, of the requests with this text, each third is carried out without its response arriving, and each third
     * arrives once more, on another connection, so much later.
     */
    distort(text: string, lateMs: number) {
      distorted = { text, lateMs };
    },
    /** From now on nothing passes on the open connections, and neither end is told, as when a firewall forgets them. */
    silence() {
      for (const socket of sockets) socket.unpipe().removeAllListeners('close').resume();
    },
    /** What came from clients so far, a piece of a connection each. */
    requests: requests as readonly string[],
    /** Requests that held `text` so far. */
    sent: (text: string) => requests.filter((request) => request.includes(text)).length,
    /** Of these, those that are no further try of one whose response was late: such a try has a connection of its own. */
    begun: (text: string) =>
      requests.filter((request) => request.includes(text) && /^connection: keep-alive/im.test(request)).length,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      listener.close();
    },
  };
}
