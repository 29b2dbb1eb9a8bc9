// What the tokens of rules cost beside keys: a call, a new token, what is held in memory, and a flood of false ones.

import { heapStats } from 'bun:jsc';
import { testClock } from '../../../support/clock.ts';
import { openDatabase } from '../../../support/database-client.ts';
import { createIssuer, type Issuer } from '../../../support/issuer.ts';
import { createTestApp, NO_CONNECTION, type TestApp } from '../../../support/test-app.ts';
import { buildDatabase } from '../database.ts';
import { getDataLoads, type Load, manyKeys } from '../loads.ts';
import { cpuUs, measure, ratio } from '../measure.ts';
import { startOurs } from '../ours.ts';
import { atLeast, atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';
import { shareKept } from './flood.ts';

const AUDIENCE = 'workloads';
const RULES = 1000;
const RULES_OF_KEY = 20;
/** A token's size in bytes. */
const TOKEN_BYTES = 2000;
/** More new tokens than one core checks in a second, so that none is sent twice. */
const NEW_TOKENS = 12_000;
const REMEMBERED = 10_000;
const SOURCES = 1000;

/** Gives the database's first keys so many rules of the issuer. */
async function addRules(url: string, issuer: Issuer, count: number): Promise<void> {
  using client = openDatabase(url);
  await client.execute({ sql: 'INSERT INTO issuers (issuer, jwks) VALUES (?, ?)', args: [issuer.url, issuer.jwksUrl] });
  await client.execute({
    sql: `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
      SELECT lower(hex(randomblob(16))), k.id, lower(hex(randomblob(32))), ?1, 'subject ' || n.value, ?2, '[]', 1
      FROM json_each(?3) n JOIN api_keys k ON k.row = 1 + n.value / ${RULES_OF_KEY}`,
    args: [issuer.url, JSON.stringify([AUDIENCE]), JSON.stringify(Array.from({ length: count }, (_, at) => at))],
  });
}

/** Tokens of the first rule. */
function tokensOf(issuer: Issuer, count: number): Promise<string[]> {
  const nowS = Math.floor(Date.now() / 1000);
  const claims = {
    sub: 'subject 0',
    aud: AUDIENCE,
    iat: nowS,
    exp: nowS + 3600,
    pad: 'x'.repeat((TOKEN_BYTES * 3) / 4 - 300),
  };
  return Promise.all(Array.from({ length: count }, (_, jti) => issuer.token({ ...claims, jti })));
}

export const rules: Section = async (plan) => {
  await using issuer = await createIssuer();
  const [without, withRules] = [await buildDatabase(1000), await buildDatabase(1000)];
  await addRules(`file:${withRules.path}`, issuer, RULES);
  const behindProxy = { TRUST_PROXY: '1' }; // the flood comes from many addresses
  await using none = await startOurs(without.path, behindProxy);
  await using thousand = await startOurs(withRules.path, behindProxy);
  const [token = '', ...fresh] = await tokensOf(issuer, 1 + 2 * NEW_TOKENS);
  const [key = ''] = withRules.keys;
  const targets = [];
  const [byKey, byToken, without1] = [key, token, without.keys[0] ?? ''].map((secret) => getDataLoads(secret));
  for (const name of ['REST', 'MCP 2025-11-25', 'MCP 2026-07-28'] as const) {
    const found = await measure(
      {
        none: { server: none, load: (without1 as Loads)[name] },
        key: { server: thousand, load: (byKey as Loads)[name] },
        token: { server: thousand, load: (byToken as Loads)[name] },
      },
      plan,
    );
    const cost = (of: 'token' | 'key', beside: 'key' | 'none') => ratio(found[of], found[beside], cpuUs);
    targets.push(atMost(`${name}: processor time by a known token, of that by key`, cost('token', 'key'), 1.1));
    targets.push(atMost(`${name}: by key beside ${RULES} rules, of that without`, cost('key', 'none'), 1.01));
  }
  await drive(thousand, manyKeys(fresh.slice(NEW_TOKENS)), 1); // to be compiled
  const beforeUs = thousand.cpuUs();
  const { requests, refused } = await drive(thousand, manyKeys(fresh.slice(0, NEW_TOKENS)), 1);
  if (refused > 0 || requests > NEW_TOKENS) throw new Error(`${refused} of ${requests} new tokens were refused`);
  targets.push(atMost('a new token, ms of processor time', (thousand.cpuUs() - beforeUs) / requests / 1000, 0.4));
  targets.push(
    atLeast(
      'share that keys keep beside a flood of false tokens',
      await shareKept(thousand, key, falseTokens(token), plan),
      0.9,
    ),
  );
  const { ofTokens, ofRules } = await memoryOf(issuer, fresh.slice(0, REMEMBERED));
  targets.push(atMost(`MB of ${REMEMBERED} remembered tokens`, ofTokens, 5));
  targets.push(atMost(`MB of ${RULES} rules`, ofRules, 2));
  return { rows: [], targets };
};

type Loads = ReturnType<typeof getDataLoads>;

/** Tokens with a false signature, from many addresses in turn. */
function falseTokens(token: string): Load {
  const addresses = Array.from({ length: SOURCES }, (_, at) => `10.0.${Math.floor(at / 250)}.${at % 250}`);
  const { headers, ...load } = manyKeys(addresses);
  const isFalse = `${token.slice(0, -20)}${'A'.repeat(20)}`;
  return { ...load, headers: { ...headers, 'X-API-Key': isFalse, 'X-Forwarded-For': '{}' } };
}

/** Memory in MB after a full collection, in an app of this process, which has had another: its modules are loaded. */
async function memoryOf(issuer: Issuer, tokens: readonly string[]): Promise<{ ofRules: number; ofTokens: number }> {
  const [first = ''] = tokens;
  for (const count of [1, RULES]) {
    const { path, keys } = await buildDatabase(RULES);
    await addRules(`file:${path}`, issuer, count);
    const env = { DATABASE_URL: `file:${path}`, RATE_LIMIT_REQUESTS: '0' };
    await using app = await createTestApp({ env, clock: testClock(Date.now()) });
    await use(app, keys[0] ?? '');
    const without = heldMb();
    await use(app, first);
    const withRules = heldMb();
    if (count === 1) continue;
    for (const token of tokens) await use(app, token);
    const afterNew = heldMb();
    for (const _ of tokens) await use(app, first); // what calls leave in an app for tests
    return { ofRules: withRules - without, ofTokens: 2 * afterNew - withRules - heldMb() };
  }
  throw new Error('nothing was measured');
}

async function use({ handler, url }: TestApp, secret: string): Promise<void> {
  const init = { method: 'POST', headers: { 'x-api-key': secret } };
  const { status } = await handler.fetch(new Request(`${url}/tools/get_data`, init), NO_CONNECTION);
  if (status !== 200) throw new Error(`get_data responded ${status}`);
}

function heldMb(): number {
  Bun.gc(true);
  return heapStats().heapSize / 1e6;
}
