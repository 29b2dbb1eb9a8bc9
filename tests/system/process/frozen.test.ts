// A real server that is stopped between the decision on a key and the response: when it goes on, the success is late.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { openHttpSocket, postText } from '../../support/http-socket.ts';
import { startServer } from '../../support/server-process.ts';
import { isStopped } from '../../support/sqld.ts';
import { STORE_MODES, type StoreMode, startStore } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(60_000); // processes are started, on machines that do other things too

/** Far from the primary, a busy machine needs more than the least to say 200 at all. */
const lagMaxMsOf = (mode: StoreMode) => (mode === 'embedded' ? 250 : 1000);
const CALLS = 24;
const ROUNDS = 3;
const FREEZER = join(import.meta.dir, '../../support/freezer.ts');

test.each([...STORE_MODES])(
  '%s: a server frozen past the bound sends no success for a key revoked meanwhile',
  async (mode) => {
    await using store = await startStore(mode);
    const lagMaxMs = lagMaxMsOf(mode);
    const env = {
      JWT_SECRET: TEST_SECRET,
      RATE_LIMIT_REQUESTS: '0',
      REVOCATION_LAG_MAX_MS: String(lagMaxMs),
      ...store.env(),
    };
    await using elsewhere = await startServer({ env });
    await using here = await startServer({ env: { ...env, ...store.env() }, preload: [FREEZER] });
    const alice = await userHeaders('alice');
    const connections = await Promise.all(Array.from({ length: CALLS }, () => openHttpSocket(here.url)));
    let late = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const { body } = await callOver(elsewhere.url, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);
      const use = async () => (await callOver(here.url, 'get_data', {}, { 'x-api-key': body.key })).status;
      await waitFor(async () => (await use()) === 200); // a busy machine may be 503 for a moment

      // All calls are there when it looks for the next one, so they are decided on in one turn.
      here.signal('SIGUSR1');
      await waitFor(() => here.stderr().split('ready to freeze\n').length - 1 > round);
      here.signal('SIGSTOP');
      await waitFor(() => isStopped(here.pid));
      const startedAt = connections.map(({ received }) => received().length);
      const request = postText('/tools/get_data', '{}', { 'X-API-Key': body.key });
      await Promise.all(connections.map(({ socket }) => new Promise((sent) => socket.write(request, sent))));
      here.signal('SIGCONT');
      await waitFor(
        () => !isStopped(here.pid) || connections.some(({ received }, at) => received().length > (startedAt[at] ?? 0)),
      );
      await waitFor(() => isStopped(here.pid));
      await callOver(elsewhere.url, 'revoke_api_key', { keyId: body.id }, alice);
      await Bun.sleep(lagMaxMs);

      const responsesOf = () => connections.map(({ received }, at) => received().slice(startedAt[at]));
      const before = responsesOf();
      expect(before.filter((text) => text !== '' && !text.startsWith('HTTP/1.1 200'))).toEqual([]);
      late += before.filter((text) => text === '').length;
      here.signal('SIGCONT');
      await waitFor(() => responsesOf().every((text) => text.includes('\r\n\r\n')));
      const after = responsesOf().filter((_, at) => before[at] === '');
      // Nothing else than that it has ended; or, far from the primary, that this can't be told in time.
      const refusal = mode === 'embedded' ? /^HTTP\/1\.1 401/ : /^HTTP\/1\.1 (401|503)/;
      expect(after.filter((text) => !refusal.test(text))).toEqual([]);
      expect(await use()).not.toBe(200);
    }
    expect(late).toBeGreaterThan(0);
    for (const { socket } of connections) socket.destroy();
  },
);
