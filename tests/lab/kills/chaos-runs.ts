// The runs of killed-primary.alone.test.ts and faults.test.ts (seconds), and store.long.ts (minutes).

import { startCluster } from '../../support/cluster.ts';
import { waitFor } from '../../support/wait-for.ts';
import { startChaos, type Verdict } from './chaos.ts';

const CALLERS = 8;
const LAG_MAX_MS = 500;
/** Uses of keys between two outages. */
const USES_BETWEEN = 500;
const DOWN_MS_MAX = 400;

/** No server's event loop is held up longer. */
export const EVENT_LOOP_PAUSE_MS_MAX = 50;

export interface Run extends Verdict {
  readonly servers: readonly { longestPausesMs: readonly number[]; rssMb: number }[];
}

/** Three servers, one of them with a replica, on a primary that is killed and restarted. */
export async function killedPrimary({ restarts }: { restarts: number }): Promise<Run> {
  await using cluster = await startCluster(['remote', 'remote', 'replica'], {
    REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
  });
  const { sqld } = cluster;
  if (sqld === null) throw new Error('no primary');
  const chaos = startChaos(cluster, CALLERS, LAG_MAX_MS);
  const work = () => {
    const before = chaos.used();
    return waitFor(() => chaos.used() >= before + USES_BETWEEN);
  };
  for (let restart = 0; restart < restarts; restart += 1) {
    await work();
    await sqld.kill();
    await Bun.sleep(Math.random() * DOWN_MS_MAX);
    await sqld.start();
  }
  await work();
  return { ...(await chaos.end()), servers: await cluster.stop() };
}

/** Several servers on one file, until keys were used so many times. */
export async function oneFile({ servers, uses }: { servers: number; uses: number }): Promise<Run> {
  const modes = Array.from({ length: servers }, () => 'embedded' as const);
  await using cluster = await startCluster(modes, {
    REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
    USER_RATE_LIMIT: '0', // on a quick machine each caller is beyond it
  });
  const chaos = startChaos(cluster, CALLERS, LAG_MAX_MS);
  await waitFor(() => chaos.used() >= uses);
  return { ...(await chaos.end()), servers: await cluster.stop() };
}
