// `bun tests/lab/upgrade.ts [--on file|remote|replica] [--from <commit>]`: today's server on databases that the version
// before has left, and beside one that still runs. Until there is a second release, the version before is the first commit
// with today's schema. Checks it out into a temporary folder. With `SERVER_RUNTIME=deno` today's is on Deno. Exit
// code 1 if something doesn't hold. Not over midnight (UTC), when quotas begin anew, nor on a machine so busy that calls
// become 503.

import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { diskFolder } from '../support/folder.ts';
import { startSqld } from '../support/sqld.ts';
import { beside } from './upgrade/beside.ts';
import { leave } from './upgrade/left.ts';
import { opens, restores } from './upgrade/opens.ts';
import { report } from './upgrade/report.ts';
import { checkedOut, firstOfSchema, today } from './upgrade/version.ts';

const PLACES = ['file', 'remote', 'replica'] as const;
type Place = (typeof PLACES)[number];

const { values } = parseArgs({ options: { on: { type: 'string' }, from: { type: 'string' } } });
const places = PLACES.filter((place) => values.on === undefined || values.on === place);

/** A new database, and the environment of servers on it, which would all use one replica. */
async function placed(place: Place) {
  const folder = diskFolder();
  if (place === 'file') return { env: { DATABASE_URL: `file:${join(folder, 'keys.db')}` }, stop: async () => {} };
  const sqld = await startSqld({ folder });
  const replica = place === 'replica' ? { DATABASE_REPLICA_FILE: join(folder, 'replica.db') } : {};
  return { env: { ...sqld.env, ...replica }, stop: sqld.kill };
}

const found = report();
const begin = (what: string) => console.log(`\n${what}\n\n| | held | |\n|---|---|---|`);
await using before = await checkedOut(values.from ?? (await firstOfSchema()));
for (const place of places) {
  begin(`${before.name} on a ${place}, then today`);
  const one = await placed(place);
  try {
    const left = await leave(before, one.env);
    await opens(today(), one.env, left, found);
    await restores(today(), left, found);
  } finally {
    await one.stop();
  }
  begin(`today beside ${before.name} on a ${place}`);
  const two = await placed(place);
  try {
    await beside(before, today(), two.env, found);
  } finally {
    await two.stop();
  }
}
console.log(found.failed() === 0 ? '\nall held' : `\n${found.failed()} did not hold`);
process.exit(found.failed() === 0 ? 0 : 1);
