// The bare limit: Bun.serve awaits req.json(), or reads the body as told, and returns constant bytes with constant
// headers. All come as arguments. The last one says whether the responses of one turn leave together, as the server's do.

import { createRequestBatcher } from '../../../../src/web/dispatch.ts';
import type { BodyRead, CannedResponse } from '../loads.ts';
import { listen } from './listen.ts';

const { status, headers, body } = JSON.parse(process.argv[2] ?? '') as CannedResponse;
const reads = process.argv[3] as BodyRead;
const endOfTurn = process.argv[4] === 'batched' ? createRequestBatcher() : null;

listen(async (request) => {
  if (reads !== 'nothing') await request[reads]();
  if (endOfTurn !== null) await endOfTurn();
  return new Response(body, { status, headers });
});
