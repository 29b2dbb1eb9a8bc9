// How a server of the benchmark starts, and says that it is ready: in the words that our own server uses.

export function listen(fetch: (request: Request) => Promise<Response>): void {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch });
  process.stderr.write(`listening on http://127.0.0.1:${server.port}\n`);
}
