// The clients that check keys from memory, on Node as the package has it, and in Python as operators copy it: they check, hear
// of an end, and stop.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { lateEndings, type Servers, startServers } from '../../support/checked-service.ts';
import { inRest } from '../../support/everything.ts';
import { startVerifier, type VerifierProcess } from '../../support/verifier-process.ts';
import { waitFor } from '../../support/wait-for.ts';

const BOUND_MS = 1000;

// biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
type Answer = any;
/** How each names the id of a key, and why it is refused. */
const PROGRAMS = [
  ['node', 'keyId', ({ problem }: Answer) => problem.code],
  ['python3', 'key_id', ({ code }: Answer) => code],
] as const;

describe.each(PROGRAMS)('on %s', (program, keyId, codeOf) => {
  describe.skipIf(Bun.which(program) === null)('which is here', () => {
    let at: Servers;
    let client: VerifierProcess;
    beforeAll(async () => {
      at = await startServers('embedded', ['bun', 'bun']);
      client = await startVerifier(program, at.url, await at.createKey('operator', ['introspect']));
    }, 180_000);
    afterAll(async () => {
      await client.kill();
      await at[Symbol.asyncDispose]();
    });

    test('it checks from memory what it has asked about, and says who is behind a key', async () => {
      const { key, id } = await at.createKey('alice', ['read', 'write']);
      const behind = { ok: true, [keyId]: id, owner: 'alice', name: 'a key', scopes: ['read', 'write'] };
      await waitFor(async () => {
        const before = at.questions();
        expect(await client.decided({ key, scopes: ['write'] })).toMatchObject(behind);
        return at.questions() === before;
      });
      for (const [asked, status, code] of [
        [{ key, scopes: ['admin'] }, 403, 'insufficient_scope'],
        [{ key: 'x' }, 401, 'invalid_api_key'],
        [{ key: '' }, 401, 'missing_api_key'],
      ] as const) {
        const answer = await client.ask(asked);
        expect([answer.ok, answer.status, codeOf(answer)]).toEqual([false, status, code]);
      }
    });

    // On Bun it is the same client: verifier.test.ts.
    const testOnce = program === 'python3' ? test : inRest(test);
    testOnce(
      'a key that has ended, in whatever way, is refused within the bound',
      async () => {
        const letsIn = async (key: string) => (await client.ask({ key, scopes: ['read'] })).ok;
        expect(await lateEndings(at, BOUND_MS, letsIn)).toEqual([]);
      },
      180_000,
    );

    test('closed, it lets nobody in, and keeps no process running', async () => {
      const { key } = await at.createKey('zoe');
      await client.decided({ key });
      await client.ask({ close: true });
      expect(await client.ask({ key })).toMatchObject({ ok: false, status: 503 });
      expect(await client.end()).toBe(0);
    });

    test('what it let in is told when it is closed, although the first requests that tell it are refused', async () => {
      const [{ key, id }, service] = [await at.createKey('yves'), await at.createKey('operator', ['introspect'])];
      const own = await startVerifier(program, at.url, service);
      let letIn = 0;
      const letsIn = async () => {
        expect(await own.decided({ key })).toMatchObject({ ok: true });
        letIn += 1;
      };
      await waitFor(async () => {
        const before = at.questions();
        await letsIn();
        return at.questions() === before;
      });
      let refusals = Number.POSITIVE_INFINITY;
      at.between = async (path, passOn) => {
        if (path !== '/changes' || refusals === 0) return passOn();
        refusals -= 1;
        return Response.json({ error: 'slow_down' }, { status: 429, headers: { 'Retry-After': '1' } });
      };
      for (let times = 0; times < 3; times += 1) await letsIn();
      const closing = own.ask({ close: true });
      refusals = 2;
      await closing;
      at.between = null;
      expect(await own.end()).toBe(0);
      await waitFor(async () => (await at.usesOf('yves'))[id] === letIn);
    });
  });
});

// On Deno its connections are its own, and can be closed once.
test('closed while a question hangs, it goes on to tell on Deno what it let in', async () => {
  const env = { RATE_LIMIT_REQUESTS: '320', REVOCATION_LAG_MAX_MS: '8000' }; // no news is late
  await using at = await startServers('embedded', ['bun'], env);
  const { key } = await at.createKey('alice');
  const client = await startVerifier('deno', at.url, await at.createKey('operator', ['introspect']));
  const isTold = async (units: number) => Object.values(await at.usesOf('alice'))[0] === units;
  let held = false;
  let letIn = 0;
  for (; !held; letIn += 1) {
    // Of 10 units, the check that leaves 2 asks for more. Those before it are reported first.
    if (letIn === 8) await waitFor(() => isTold(letIn));
    expect((await client.decided({ key })).ok).toBe(true);
    at.between = async (path, passOn) => {
      if (path !== '/introspect') return passOn();
      held = true;
      return new Promise(() => {});
    };
    if (letIn >= 8) await waitFor(() => held);
  }
  expect(await client.ask({ close: true })).toBe(null);
  expect(await client.end()).toBe(0);
  await waitFor(() => isTold(letIn));
}, 180_000);
