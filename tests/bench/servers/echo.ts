// The echo: Bun.serve parses the request's JSON and prints it again, with a single header.

import { announce } from './announce.ts';

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const body: unknown = await request.json();
      return new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } });
    },
  }),
);
