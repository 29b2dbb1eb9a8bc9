// The clients that check keys from memory when their server stands still or is killed, when a clock is set back, and when
// their machine has slept: the last yes comes within the bound.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { noLibrary } from '../../support/c-library.ts';
import { ENDINGS, lastYesAfter, type MadeKey, type Servers, startServers } from '../../support/checked-service.ts';
import { type HeldClocks, heldClocks } from '../../support/held-clock.ts';
import type { ServerProcess } from '../../support/server-process.ts';
import { PROGRAMS, startVerifier, type VerifierProcess } from '../../support/verifier-process.ts';

setDefaultTimeout(180_000);

const BOUND_MS = 1000;
const HOUR_MS = 3_600_000;

interface Started extends AsyncDisposable {
  readonly at: Servers;
  /** The only server that the client knows; keys end at the other. */
  readonly known: ServerProcess;
  readonly client: VerifierProcess;
  readonly made: MadeKey;
  letsIn(): Promise<boolean>;
  revoke(): Promise<unknown>;
}

interface Clocks {
  readonly ofServers?: HeldClocks;
  readonly ofClient?: HeldClocks;
}

const missing = noLibrary();

describe.each(PROGRAMS)('on %s', (program) => {
  /** Two servers, and a client that has a good key in memory. */
  async function start({ ofServers, ofClient }: Clocks = {}): Promise<Started> {
    const at = await startServers('embedded', ['bun', 'bun'], { RATE_LIMIT_REQUESTS: '0', ...ofServers?.env });
    const [, known] = at.servers;
    if (known === undefined) throw new Error('expected two servers');
    const client = await startVerifier(
      program,
      known.url,
      await at.createKey('operator', ['introspect']),
      ofClient?.env,
    );
    const made = await at.createKey('alice');
    const letsIn = async () => (await client.ask({ key: made.key })).ok;
    while (!(await letsIn())) await Bun.sleep(10);
    return {
      at,
      known,
      client,
      made,
      letsIn,
      revoke: async () => ENDINGS.revoked?.(at, made),
      async [Symbol.asyncDispose]() {
        await client.kill();
        await at[Symbol.asyncDispose]();
      },
    };
  }

  test.each(['SIGSTOP', 'SIGKILL'] as const)('%s to its server, and a key that ends at another', async (signal) => {
    await using started = await start();
    const { known, letsIn, revoke } = started;
    const end = () => {
      known.signal(signal);
      return revoke();
    };
    expect(await lastYesAfter(end, letsIn)).toBeLessThanOrEqual(BOUND_MS);
    if (signal === 'SIGSTOP') known.signal('SIGCONT');
    expect(await letsIn()).toBe(false);
  });

  test.skipIf(missing !== null).each(['ofServers', 'ofClient'] as const)(
    'a clock (%s) that is set back',
    async (whose) => {
      const clocks = heldClocks();
      await using started = await start({ [whose]: clocks });
      const { letsIn, revoke } = started;
      clocks.setWall(-HOUR_MS);
      expect(await lastYesAfter(revoke, letsIn)).toBeLessThanOrEqual(BOUND_MS);
      expect(await letsIn()).toBe(false);
    },
  );

  test.skipIf(missing !== null)('a machine that has slept, and a key that ended meanwhile', async () => {
    const clocks = heldClocks();
    await using started = await start({ ofClient: clocks });
    const { client, known, letsIn, revoke } = started;
    const asleep = async () => {
      await known.kill(); // nobody is there to tell it: only its clocks can
      await revoke();
    };
    await clocks.sleep(client, asleep, HOUR_MS);
    expect(await letsIn()).toBe(false);
  });
});
