// REVOCATION_LAG_MAX_MS on real processes: revoked on one, refused on every other in time, whatever the store does.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { CLUSTERS, revocationRound } from '../lab/kills/revocation-rounds.ts';
import { startCluster } from '../support/cluster.ts';
import { everything, rows } from '../support/everything.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const ROUNDS = everything ? 8 : 4;
const LAG_MAX_MS = 1000; // the default
/** A machine that is slower than the bound gets 503, as it should, and a round ends when it has caught up. */
const ROUNDS_MS_MAX = 300_000;

describe.each(rows(Object.entries(CLUSTERS), 1))('three servers %s', (_, modes) => {
  test(
    'a key revoked on one of three servers is refused by all within the bound',
    async () => {
      await using cluster = await startCluster(modes, { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) });
      for (let round = 0; round < ROUNDS; round += 1) {
        const { lastSuccessMs, odd } = await revocationRound(cluster, round, 'alice');
        expect(odd).toEqual([]);
        expect(lastSuccessMs).toBeLessThan(LAG_MAX_MS);
      }
    },
    ROUNDS_MS_MAX,
  );
});
