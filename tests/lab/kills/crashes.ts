// kill -9 at random moments while users work with keys over every transport; after each restart they check that
// nothing acknowledged is lost and nothing half done.

import { join } from 'node:path';
import { executeAt } from '../../support/database-client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createModelUser, type ModelUser, seeded } from '../../support/model-user.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { transportOf } from '../../support/transports.ts';

/** From the first crash on, a round lasts at least and at most this long. */
const LIFE_MS_MIN = 30;
const LIFE_MS_MAX = 300;

/** How many operations were acknowledged. Throws at the first one that is lost, or wrong. */
export async function crash(options: { rounds: number; users: number; seed: number }): Promise<number> {
  const folder = temporaryFolder();
  const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' };
  const random = seeded(options.seed);
  let users: ModelUser[] = [];

  for (let round = 0; round <= options.rounds; round += 1) {
    const server = await startServer({ folder, env });
    if (round === 0) {
      const made = Array.from({ length: options.users }, (_, index) =>
        createModelUser(`user ${index}`, transportOf(index, server.url), seeded(options.seed + index + 1)),
      );
      users = await Promise.all(made);
    } else {
      await Promise.all(users.map((user, index) => user.moveTo(transportOf(index, server.url), 'crash')));
      await expectWhole(join(folder, 'data/keys.db')); // only once the server has repaired what it had to
    }
    if (round === options.rounds) {
      if ((await server.stop()) !== 0) throw new Error('the last stop was not orderly');
      break;
    }
    let dead = false;
    const work = users.map((user) => user.workUntilGone(() => dead));
    await Bun.sleep(LIFE_MS_MIN + random() * (LIFE_MS_MAX - LIFE_MS_MIN));
    dead = true;
    await server.kill();
    for (const wrong of await Promise.all(work)) if (wrong !== null) throw wrong;
  }
  return users.reduce((sum, { answered }) => sum + answered, 0);
}

async function expectWhole(file: string): Promise<void> {
  const rows = await executeAt(`file:${file}`, 'PRAGMA integrity_check');
  if (rows.length !== 1 || rows[0]?.integrity_check !== 'ok') throw new Error(JSON.stringify(rows));
}
