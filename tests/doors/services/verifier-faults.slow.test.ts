// The clients that check keys from memory when their server stands still or is killed, when a clock is set back, and when
// their machine has slept: the last yes comes within the bound.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { noLibrary } from '../../support/c-library.ts';
import { ENDINGS, lastYesAfter, type Servers, startServers } from '../../support/checked-service.ts';
import { rows } from '../../support/everything.ts';
import { type HeldClocks, heldClocks } from '../../support/held-clock.ts';
import { PROGRAMS, startVerifier, type VerifierProcess } from '../../support/verifier-process.ts';

setDefaultTimeout(180_000);

const HERE = rows(PROGRAMS, 2);
const BOUND_MS = 1000;
const HOUR_MS = 3_600_000;

interface Client {
  readonly program: string;
  readonly process: VerifierProcess;
  readonly clocks: HeldClocks | null;
  letsIn(): Promise<boolean>;
}

interface Clocks {
  readonly ofServers?: HeldClocks;
  readonly ofClients?: () => HeldClocks;
}

/** Two servers, and a client on each program, which knows one of them and has in memory a good key that ends at the other. */
async function start({ ofServers, ofClients }: Clocks = {}) {
  const at: Servers = await startServers('embedded', ['bun', 'bun'], { RATE_LIMIT_REQUESTS: '0', ...ofServers?.env });
  const [, known] = at.servers;
  if (known === undefined) throw new Error('expected two servers');
  const service = await at.createKey('operator', ['introspect']);
  const made = await at.createKey('alice');
  const clients = HERE.map(async (program): Promise<Client> => {
    const clocks = ofClients?.() ?? null;
    const process = await startVerifier(program, known.url, service, clocks?.env);
    const letsIn = async () => (await process.ask({ key: made.key })).ok;
    while (!(await letsIn())) await Bun.sleep(10);
    return { program, process, clocks, letsIn };
  });
  return {
    known,
    clients: await Promise.all(clients),
    revoke: async () => ENDINGS.revoked?.(at, made),
    async [Symbol.asyncDispose]() {
      for (const { process } of await Promise.all(clients)) await process.kill();
      await at[Symbol.asyncDispose]();
    },
  };
}

/** Ends the key. Expects the last yes of each client within the bound. */
async function expectInTime(clients: readonly Client[], end: () => Promise<unknown>): Promise<void> {
  const ended = end();
  const last = clients.map(async ({ program, letsIn }) => [program, await lastYesAfter(() => ended, letsIn)] as const);
  expect((await Promise.all(last)).filter(([, lastMs]) => lastMs > BOUND_MS)).toEqual([]);
}

async function expectNobody(clients: readonly Client[]): Promise<void> {
  const found = clients.map(async ({ program, letsIn }) => [program, await letsIn()] as const);
  expect(await Promise.all(found)).toEqual(HERE.map((program) => [program, false]));
}

test.each(rows(['SIGSTOP', 'SIGKILL'] as const, 1))(
  '%s to its server, and a key that ends at another',
  async (signal) => {
    await using started = await start();
    const { known, clients, revoke } = started;
    known.signal(signal);
    await expectInTime(clients, revoke);
    if (signal === 'SIGSTOP') known.signal('SIGCONT');
    await expectNobody(clients);
  },
);

const missing = noLibrary();

test.skipIf(missing !== null)('a clock of servers that is set back', async () => {
  const clocks = heldClocks();
  await using started = await start({ ofServers: clocks });
  clocks.setWall(-HOUR_MS);
  await expectInTime(started.clients, started.revoke);
  await expectNobody(started.clients);
});

test.skipIf(missing !== null)('a clock of a client that is set back', async () => {
  await using started = await start({ ofClients: heldClocks });
  for (const { clocks } of started.clients) clocks?.setWall(-HOUR_MS);
  await expectInTime(started.clients, started.revoke);
  await expectNobody(started.clients);
});

test.skipIf(missing !== null)('a machine that has slept, and a key that ended meanwhile', async () => {
  await using started = await start({ ofClients: heldClocks });
  const { known, clients, revoke } = started;
  const ended = Promise.withResolvers<void>();
  let asleep = 0;
  const whenAllSleep = () => {
    asleep += 1;
    // Nobody is there to tell them: only their clocks can.
    if (asleep === clients.length)
      ended.resolve(
        known
          .kill()
          .then(revoke)
          .then(() => {}),
      );
    return ended.promise;
  };
  await Promise.all(clients.map(({ process, clocks }) => clocks?.sleep(process, whenAllSleep, HOUR_MS)));
  await expectNobody(clients);
});
