// A service that says what it was sent, and remembers it. With `?status=500` it says so with that status.

export interface Echoed {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

export type EchoService = ReturnType<typeof startEcho>;

/** `requests` is everything that reached it. */
export function startEcho() {
  const requests: Echoed[] = [];
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname, search, searchParams } = new URL(request.url);
      const headers = Object.fromEntries(request.headers);
      const echoed = { method: request.method, path: pathname + search, headers, body: await request.text() };
      requests.push(echoed);
      return Response.json(echoed, { status: Number(searchParams.get('status') ?? 200) });
    },
  });
  return { url: server.url.origin, requests, [Symbol.dispose]: () => void server.stop(true) };
}
