// A rule's end while a token of it is being checked: between any two reads a gate holds what the server waits for. The
// clock is moved by hand.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { createKey } from '../../support/issuer.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';
import { startWorkload } from './workload.ts';

/** With this bound no poll comes by itself while a test runs. */
const LAG_MAX_MS = 60_000;

/** Reads all rules. */
const READ = 'FROM rules r LEFT JOIN issuers';

interface Gate {
  /** Resolves when the server waits. */
  readonly made: Promise<unknown>;
  release(): void;
}

/** A server that knows nothing yet, and another, on a primary. */
async function startTwo() {
  const slow = await startSlowStore();
  const workload = await startWorkload({ store: slow.store });
  const { app: elsewhere, issuer, audience, keyId, ruleId } = workload;
  const env = { PUBLIC_URL: audience, REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };
  const here = await createTestApp({ store: slow.store, env });
  const other = await here.createKey('alice');
  const alice = await bearer(here, 'alice');
  async function gateOfRules(): Promise<Gate> {
    await elsewhere.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', crypto.randomUUID());
    here.clock.sleep(LAG_MAX_MS); // then it reads them again
    return slow.delayResponseTo(READ);
  }
  return {
    here,
    token: () => workload.token({ jti: crypto.randomUUID() }),
    gates: {
      'the rules': gateOfRules,
      async 'the rules, with the key in memory'(): Promise<Gate> {
        expect((await here.useKey(await workload.token())).status).toBe(200);
        return gateOfRules();
      },
      'the key': async (): Promise<Gate> => slow.delayResponseTo('LEFT JOIN rules r ON r.hash'),
      async 'the key set of the issuer'(): Promise<Gate> {
        const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        issuer.overrides.set('/jwks', async () => {
          asked.resolve();
          await answer.promise;
          return Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) });
        });
        return { made: asked.promise, release: answer.resolve };
      },
    },
    async giveOtherKeys(): Promise<void> {
      const file = join(temporaryFolder(), 'jwks.json');
      await Bun.write(file, JSON.stringify({ keys: [(await createKey()).jwk] }));
      await workload.addRule('--jwks', file);
    },
    /** Binds the key to another server, or to none, as a database shell does. */
    bind: (resource: string | null) =>
      slow.execute(`UPDATE api_keys SET resource = nullif(?, '') WHERE id = ?`, resource ?? '', keyId),
    gateOfRead: () => slow.delayResponseTo(READ),
    endRule: () => elsewhere.keys('rule', 'remove', ruleId),
    /** An own change, after which this server knows those of others, too. */
    changeHere: () => here.call('revoke_api_key', { keyId: other.id }, alice),
    /** Resolves when a request that was sent before has come. */
    arrived: async () => void (await (await fetch(here.url)).text()),
    status: async (token: string) => (await here.useKey(token)).status,
    async [Symbol.asyncDispose]() {
      for (const part of [here, workload, slow]) await part[Symbol.asyncDispose]();
    },
  };
}

const AWAITED = ['the rules', 'the rules, with the key in memory', 'the key set of the issuer', 'the key'] as const;

describe.each(AWAITED)('while a server waits for %s', (what) => {
  test('a rule ends: a token that waited beyond the bound is refused', async () => {
    await using two = await startTwo();
    const { here, token, endRule, arrived, status } = two;
    const gate = await two.gates[what]();
    const [one, another] = [await token(), await token()];
    const [first, joined] = [status(one), status(another)];
    await gate.made;
    await arrived();
    await endRule();
    here.clock.sleep(LAG_MAX_MS);
    const later = status(one); // polls first
    await arrived();
    gate.release();
    expect(await Promise.all([first, joined, later])).toEqual([401, 401, 401]);
    expect([await status(one), await status(another)]).toEqual([401, 401]);
  });

  test('a rule ends, and this becomes known: whoever comes after that is refused, and nothing is kept', async () => {
    await using two = await startTwo();
    const { token, endRule, changeHere, arrived, status } = two;
    const gate = await two.gates[what]();
    const one = await token();
    const first = status(one);
    await gate.made;
    await endRule();
    await changeHere();
    const second = status(one);
    await arrived();
    gate.release();
    expect(await second).toBe(401);
    expect([200, 401]).toContain(await first); // it began within the bound of the end
    expect([await status(one), await status(await token())]).toEqual([401, 401]);
  });
});

test('the rules come too late twice: a token is let in by no key set that was replaced meanwhile', async () => {
  await using two = await startTwo();
  const { here, token, gates, giveOtherKeys, status } = two;
  const first = await gates['the rules']();
  const one = await token();
  const waiting = status(one);
  await first.made;
  const second = await gates['the rules']();
  first.release();
  await second.made;
  await giveOtherKeys();
  here.clock.sleep(LAG_MAX_MS);
  second.release();
  expect(await waiting).toBe(503);
  expect(await status(one)).toBe(401);
});

test('a key is bound otherwise while the rules are read: they are not kept as they were', async () => {
  await using two = await startTwo();
  const { here, token, bind, gateOfRead, changeHere, status } = two;
  await bind('https://another.example');
  here.clock.sleep(LAG_MAX_MS);
  expect(await status(`sk_test_${'0'.repeat(64)}`)).toBe(401); // which polls
  const gate = gateOfRead();
  const first = status(await token());
  await gate.made;
  await bind(null);
  await changeHere();
  gate.release();
  expect([200, 401]).toContain(await first);
  expect(await status(await token())).toBe(200);
});
