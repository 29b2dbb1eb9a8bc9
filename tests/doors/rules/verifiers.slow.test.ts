// The tokens of a rule in the memory of services, in TypeScript and in Python: refused within the bound, however they end.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { type Servers, startServers } from '../../support/checked-service.ts';
import { exchange } from '../../support/children.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createIssuer, createKey, type Issuer } from '../../support/issuer.ts';
import { CLIENTS, PROGRAMS, startVerifier, type VerifierProcess } from '../../support/verifier-process.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const AUDIENCE = 'workloads';
/** So long nobody is let in, so that a late success would be seen. */
const QUIET_MS = 300;
/** What memory knows, it knows without a question so often. */
const KNOWN_TIMES = 3;

interface Made {
  readonly keyId: string;
  readonly owner: string;
  readonly ruleId: string;
  readonly issuer: Issuer;
  readonly token: string;
}

const removeRule = (at: Servers, { ruleId }: Made) => at.keys('rule', 'remove', ruleId);

/** How a token ends, and what is presented instead of it, if anything. */
const ENDINGS: Readonly<
  Record<string, { end(at: Servers, made: Made): Promise<unknown>; present?(at: Servers, made: Made): Promise<string> }>
> = {
  'its rule is removed': { end: removeRule },
  'the rule of a child is removed': {
    end: removeRule,
    async present(at, { token }) {
      const fields = { subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
      return (await exchange(at, token, fields)).body.access_token;
    },
  },
  'its key is revoked': { end: (at, { keyId }) => at.keys('revoke', keyId, '--yes') },
  'its key is narrowed': { end: (at, { keyId }) => at.keys('update', keyId, '--scope', 'other') },
  'its owner is blocked': { end: (at, { owner }) => at.keys('block', owner, '--yes') },
  'its owner is deleted': { end: (at, { owner }) => at.keys('owner', owner, '--delete', '--yes') },
  'the key set of its issuer is replaced': {
    async end(at, { keyId, issuer, owner }) {
      const file = join(temporaryFolder(), 'jwks.json');
      await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256', 'first')).jwk] }));
      await addRule(at, keyId, issuer, owner, '--jwks', file);
    },
  },
};

const addRule = async (at: Servers, keyId: string, { url }: Issuer, subject: string, ...more: string[]) => {
  const terms = ['--issuer', url, '--subject', subject, '--audience', AUDIENCE];
  return (await at.keys('rule', 'add', keyId, ...terms, ...more)).trim();
};

async function make(at: Servers, issuer: Issuer): Promise<Made> {
  const owner = `owner ${crypto.randomUUID()}`;
  const { id: keyId } = await at.createKey(owner);
  const ruleId = await addRule(at, keyId, issuer, owner);
  const nowS = Math.floor(Date.now() / 1000);
  const token = await issuer.token({ sub: owner, aud: AUDIENCE, iat: nowS, exp: nowS + 3600 });
  return { keyId, owner, ruleId, issuer, token };
}

describe.each(rows([250, 1000], 1))('with a bound of %d ms', (boundMs) => {
  let at: Servers;
  let service: { id: string; key: string };
  beforeAll(async () => {
    const env = { REVOCATION_LAG_MAX_MS: String(boundMs), RATE_LIMIT_REQUESTS: '0' };
    at = await startServers('embedded', ['bun', 'bun'], env);
    service = await at.createKey('operator', ['introspect']);
  });
  afterAll(() => at[Symbol.asyncDispose]());

  describe.each(rows(['bun', 'python3'] as const, 1))('the client on %s', (program) => {
    let client: VerifierProcess;
    const isMissing = CLIENTS.includes(program) && !PROGRAMS.includes(program);
    beforeAll(async () => {
      if (!isMissing) client = await startVerifier(program, at.url, service);
    });
    afterAll(() => client?.kill());

    test.skipIf(isMissing).each(Object.keys(ENDINGS))('lets nobody in for longer when %s', async (how) => {
      const { end, present } = ENDINGS[how] as (typeof ENDINGS)[string];
      await using issuer = await createIssuer();
      const made = await make(at, issuer);
      const key = (await present?.(at, made)) ?? made.token;
      const letsIn = async () => (await client.ask({ key, scopes: ['read'] })).ok;
      for (let known = 0; known < KNOWN_TIMES; ) {
        const before = at.questions();
        if ((await letsIn()) && at.questions() === before) known += 1; // from memory
      }
      await end(at, made);
      const endedMs = performance.now();
      let lastMs = endedMs;
      for (let sentMs = endedMs; sentMs - Math.max(lastMs, endedMs + boundMs) < QUIET_MS; sentMs = performance.now()) {
        if (await letsIn()) lastMs = sentMs;
      }
      expect(lastMs - endedMs).toBeLessThan(boundMs);
    });
  });
});
