// The bare limit: Bun.serve awaits req.json(), or reads the body as told, and answers constant bytes with constant
// headers. All come as arguments.

import type { BodyRead, CannedAnswer } from '../loads.ts';
import { announce } from './announce.ts';

const { status, headers, body } = JSON.parse(process.argv[2] ?? '') as CannedAnswer;
const reads = process.argv[3] as BodyRead;

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (reads !== 'nothing') await request[reads]();
      return new Response(body, { status, headers });
    },
  }),
);
