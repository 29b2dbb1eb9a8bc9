// The bare limit: Bun.serve awaits req.json() and answers constant bytes with constant headers. Both come as an
// argument.

import type { CannedAnswer } from '../loads.ts';
import { announce } from './announce.ts';

const { status, headers, body } = JSON.parse(process.argv[2] ?? '') as CannedAnswer;

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      await request.json();
      return new Response(body, { status, headers });
    },
  }),
);
