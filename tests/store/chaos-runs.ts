// The runs of faults.test.ts (seconds) and store.long.ts (minutes).

import { startFleet } from '../support/fleet.ts';
import { startChaos, type Verdict } from './chaos.ts';

const CALLERS = 8;
const LAG_MAX_MS = 500;
const UP_MS = 600;
const DOWN_MS_MAX = 400;

/** No server's event loop is held up longer. */
export const EVENT_LOOP_PAUSE_MS_MAX = 50;

export interface Run extends Verdict {
  readonly servers: readonly { longestPausesMs: readonly number[]; rssMb: number }[];
}

/** Three servers, one of them with a replica, on a primary that is killed and restarted. */
export async function killedPrimary({ restarts }: { restarts: number }): Promise<Run> {
  await using fleet = await startFleet(['remote', 'remote', 'replica'], { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) });
  const { sqld } = fleet;
  if (sqld === null) throw new Error('no primary');
  const chaos = startChaos(fleet, CALLERS, LAG_MAX_MS);
  for (let restart = 0; restart < restarts; restart += 1) {
    await Bun.sleep(UP_MS);
    await sqld.kill();
    await Bun.sleep(Math.random() * DOWN_MS_MAX);
    await sqld.start();
  }
  await Bun.sleep(UP_MS);
  return { ...(await chaos.end()), servers: await fleet.stop() };
}

/** Several servers on one file. */
export async function oneFile({ servers, runMs }: { servers: number; runMs: number }): Promise<Run> {
  const modes = Array.from({ length: servers }, () => 'embedded' as const);
  await using fleet = await startFleet(modes, { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) });
  const chaos = startChaos(fleet, CALLERS, LAG_MAX_MS);
  await Bun.sleep(runMs);
  return { ...(await chaos.end()), servers: await fleet.stop() };
}
