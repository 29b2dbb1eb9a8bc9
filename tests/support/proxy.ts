// A TCP proxy before a libSQL server, which can hold back the pulls of replicas while statements pass, and counts those.

import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** How an HTTP/2 connection begins (RFC 9113 §3.4). Replicas pull over gRPC; statements come over HTTP/1.1. */
const HTTP2_PREFACE = 'PRI * HTTP/2.0';
const STATEMENT = 'POST /v2/pipeline';

export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** Requests with statements so far. */
  statements(): number;
  holdPulls(): void;
  releasePulls(): void;
}

export async function startProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const pulls = new Set<Socket>();
  let held = false;
  let statements = 0;

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
        pulls.delete(socket);
      });
    }
    client.on('data', (chunk) => {
      const start = chunk.slice(0, STATEMENT.length).toString();
      if (start === STATEMENT) statements += 1;
      if (start.startsWith(HTTP2_PREFACE)) {
        pulls.add(server);
        if (held) server.pause();
      }
    });
    client.pipe(server);
    server.pipe(client);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    statements: () => statements,
    holdPulls() {
      held = true;
      for (const server of pulls) server.pause();
    },
    releasePulls() {
      held = false;
      for (const server of pulls) server.resume();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      listener.close();
    },
  };
}
