// Restarts two servers that share a port, one after the other, under clients that open a connection for each call, and
// prints what was lost, as JSON. Run by shared-port.slow.test.ts, on a network of its own.

import { clientsOf, sharing } from '../support/shared-port.ts';

await using started = new AsyncDisposableStack();
const { url, start, startTwo } = sharing(started, { RATE_LIMIT_REQUESTS: '0' });
const before = await startTwo();
const clients = await clientsOf(url, false);
for (const server of before) {
  await clients.more();
  await server.stop();
  await start();
}
await clients.more();
await clients.end();
process.stdout.write(JSON.stringify(clients.lost));
