// How a server of the benchmark says that it is ready: the words our own server uses.

export function announce(server: Bun.Server<undefined>): void {
  process.stderr.write(`listening on http://127.0.0.1:${server.port}\n`);
}
