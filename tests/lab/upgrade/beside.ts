// Today's server starts on the database of one of the version before that goes on: both serve, what is done at each is seen
// at the other within the promised time, and then the one before stops.

import { hash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { childOf } from '../../support/children.ts';
import { callOver, userHeaders } from '../../support/client.ts';
import { openDatabase } from '../../support/database-client.ts';
import { ALL_DAYS } from '../../support/fill.ts';
import { diskFolder } from '../../support/folder.ts';
import { codeFor, register } from '../../support/hand-over.ts';
import { createIssuer } from '../../support/issuer.ts';
import type { ServerProcess } from '../../support/server-process.ts';
import { waitFor, waitForWithin } from '../../support/wait-for.ts';
import { revocationRound } from '../kills/revocation-rounds.ts';
import { allKeys, beyondRefusals, called, used, usesUntilRefused } from './left.ts';
import type { Report } from './report.ts';
import type { Version } from './version.ts';

type Env = Readonly<Record<string, string>>;

/** REVOCATION_LAG_MAX_MS. */
const LAG_MAX_MS = 1000;
/** Each way of ending a secret, by each server, of each kind of secret. */
const ROUNDS = 12;
const CALLERS = 4;
const LIMIT = 640;
const USE_EVERY_MS = 16;
/** Of a key that was read from a replica, others' uses are known 250 ms after its first use, and an exchange. */
const TOLD_MS_MAX = 500;
const CAUGHT_UP_MS_MAX = 10_000;
const AUDIENCE = 'workloads';
/** Last uses and counts are in the database by then, on a busy machine too. */
const WRITTEN_MS_MAX = 10_000;

export async function beside(before: Version, now: Version, env: Env, report: Report): Promise<void> {
  const { say, same } = report;
  await using old = await before.start(env);
  const { key } = await called(old.url, 'create_api_key', { name: 'k', scopes: ['read'] }, 'alice');
  const atOld = callersOf(old.url, 'old');
  await waitFor(() => atOld.calls() > 100);
  await using newer = await now.start(env);
  const healthyMs = await waitFor(async () => (await fetch(`${newer.url}/mcp/health`)).ok);
  const atNewer = callersOf(newer.url, 'newer');
  await waitFor(() => atNewer.calls() > 500);
  const calls = [await atOld.end(), await atNewer.end()];
  same(
    'the start of the newer one, and both at once, fail no call of either',
    calls.flatMap(({ failed }) => failed),
    [],
  );
  say(
    'calls meanwhile, at each',
    true,
    `${calls.map(({ made }) => made).join(' and ')}; ready after ${healthyMs.toFixed(0)} ms`,
  );
  same('a key of the old one is good at the newer', await used(newer.url, key), 200);

  await ends([old, newer], report);
  await blocks(old, newer, now, env, report);
  await children(old, newer, report);
  await customers(old, newer, now, env, report);
  await workloads(old, newer, now, env, report);
  const counted = await shareLimit([old, newer], env, report);
  for (const { url } of [old, newer]) {
    const client = await register({ url });
    const { status } = await client.redeem(await codeFor(client, key));
    same(`${url === old.url ? 'the old' : 'the newer'} one hands a key to an OAuth client`, status, 200);
  }
  await keepsTrail(env, report);
  const hasReplica = 'DATABASE_REPLICA_FILE' in env;
  if (hasReplica) {
    same('the newer one has the file of the replica', await replicaOf(newer), 'in_use');
  }

  for (let n = 0; n < 7; n += 1) await used(old.url, key);
  same('the old one stops in order', await old.stop(), 0);
  // Its replica can't hold the columns that are new at the primary.
  const odd = beyondRefusals(old).filter(({ event }) => event !== 'replica not in use');
  same('and has logged nothing but refusals, and the loss of its replica', odd, []);
  if (hasReplica) {
    same('the newer one keeps the file', await replicaOf(newer), 'in_use');
  }
  const { keys } = await called(newer.url, 'list_api_keys', {}, 'alice');
  same('its last uses are counted', keys[0]?.uses?.today, 8);
  if (now.migrations > before.migrations) {
    const again = await before.start(env).then(async (server) => `it started: ${await server.stop()}`, String);
    say('it refuses to start again', again.includes('written by a newer version'), again.split('\n')[0]);
  }
  same('the newer one stops in order', await newer.stop(), 0);
  same('and has logged nothing else', beyondRefusals(newer), []);
  await using restarted = await now.start(env);
  const kept = (await allKeys(restarted.url)).find(({ id }) => id === counted.id);
  same('what both have counted is there after a restart', kept?.uses?.today, counted.uses);
  const startedAtMs = performance.now();
  const uses = await usesUntilRefused(restarted.url, counted.key);
  const refusedMs = performance.now() - startedAtMs;
  const isSoon = uses === 0 || (hasReplica && refusedMs < TOLD_MS_MAX); // a replica has no counts
  say('a limit that they used up together stays so', isSoon, `${uses} uses in ${refusedMs.toFixed(0)} ms`);
}

/** The state of its replica, which is given some seconds to catch up. */
async function replicaOf({ url }: { url: string }): Promise<string> {
  const state = async (): Promise<string> => (await (await fetch(`${url}/mcp/health`)).json()).store.replica;
  await waitForWithin(CAUGHT_UP_MS_MAX, async () => (await state()) !== 'catching_up').catch(() => {});
  return state();
}

/** People and programs who make keys, use, list and revoke them, until told to end. */
function callersOf(url: string, name: string) {
  let made = 0;
  let ending = false;
  const failed: string[] = [];
  async function caller(nth: number): Promise<void> {
    for (let turn = 0; !ending; turn += 1) {
      const user = await userHeaders(`${name}-${nth}-${turn}`);
      const call = async (tool: string, input: object, headers: Record<string, string>) => {
        const { status, body } = await callOver(url, tool, input, headers);
        made += 1;
        if (status !== 200) failed.push(`${tool}: ${status} ${JSON.stringify(body)}`);
        return body;
      };
      const { id, key } = await call('create_api_key', { name: 'of a caller', scopes: ['read'] }, user);
      for (let use = 0; use < 3; use += 1) await call('get_data', {}, { 'x-api-key': key });
      await call('list_api_keys', {}, user);
      await call('revoke_api_key', { keyId: id }, user);
    }
  }
  const callers = Promise.all(Array.from({ length: CALLERS }, (_, nth) => caller(nth)));
  return {
    calls: () => made,
    async end() {
      ending = true;
      await callers;
      return { made, failed };
    },
  };
}

/** A secret is used at both while one of them ends it. */
async function ends(servers: readonly ServerProcess[], { say, same }: Report): Promise<void> {
  const lastMs: number[] = [];
  const odd: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const ended = await revocationRound({ servers }, round, 'hammer');
    lastMs.push(ended.lastSuccessMs);
    odd.push(...ended.odd);
  }
  same('a secret of one is good at the other at once, and a success or 401 is all it gets', odd, []);
  const worstMs = Math.max(...lastMs);
  say(
    'revoked or rotated at one, refused at the other within 1,000 ms',
    worstMs < LAG_MAX_MS,
    `${worstMs.toFixed(0)} ms`,
  );
}

async function blocks(old: ServerProcess, newer: ServerProcess, now: Version, env: Env, { say, same }: Report) {
  const { id, key } = await called(old.url, 'create_api_key', { name: 'k', scopes: ['read'] }, 'bob');
  const both = [old, newer];
  const get = async (expected: number) => {
    const startedAtMs = performance.now();
    const follow = ({ url }: { url: string }) =>
      waitForWithin(LAG_MAX_MS, async () => (await used(url, key)) === expected);
    await Promise.all(both.map(follow)).catch(() => {});
    return performance.now() - startedAtMs;
  };
  await get(200);
  for (const [args, expected] of [
    [['block', 'bob'], 401],
    [['unblock', 'bob'], 200],
    [['update', id, '--limit', '1/366d'], 429],
  ] as const) {
    same(`\`keys ${args[0]}\` of today`, (await now.keys(env, args)).code, 0);
    const followedMs = await get(expected);
    say(`both follow \`keys ${args[0]}\` within 1,000 ms`, followedMs < LAG_MAX_MS, `${followedMs.toFixed(0)} ms`);
  }
}

/** A key that makes children, which each of both ends, alone or with their parent. */
async function children(old: ServerProcess, newer: ServerProcess, { say, same }: Report): Promise<void> {
  const wanted = { name: 'parent', scopes: ['read', 'delegate'] };
  const parent = await called(old.url, 'create_api_key', wanted, 'carol');
  const [alone, together] = [await childOf(newer, parent.key), await childOf(old, parent.key)];
  const at = async (key: string) => [await used(old.url, key), await used(newer.url, key)];
  for (const { key } of [alone, together]) same('a child of one is good at both', await at(key), [200, 200]);
  const ends = async (what: string, keyId: string, { key }: { key: string }, by: ServerProcess, at: ServerProcess) => {
    await called(by.url, 'revoke_api_key', { keyId }, 'carol');
    const endedMs = await waitFor(async () => (await used(at.url, key)) === 401);
    say(`${what} ends it there within 1,000 ms`, endedMs < LAG_MAX_MS, `${endedMs.toFixed(0)} ms`);
  };
  await ends('its end at the newer one', alone.id, alone, newer, old);
  await ends('its parent’s end at the old one', parent.id, together, old, newer);
}

/** A plan and a key of another form. */
async function customers(old: ServerProcess, newer: ServerProcess, now: Version, env: Env, { same }: Report) {
  const { key } = await called(newer.url, 'create_api_key', { name: 'k', scopes: ['read'] }, 'pia');
  const statusesOf = async (secret: string) => [await used(old.url, secret), await used(newer.url, secret)];
  const foreign = `another-form-${crypto.randomUUID()}`;
  const file = join(diskFolder(), 'keys.jsonl');
  const keyHash = hash('sha256', foreign);
  writeFileSync(file, JSON.stringify({ userId: 'pia', name: 'f', keyHash, scopes: ['read'], foreign: true }));
  same('`keys import` of a key of another form', (await now.keys(env, ['import', file])).code, 0);
  const areBothGood = async () => (await statusesOf(foreign)).every((status) => status === 200);
  await waitForWithin(LAG_MAX_MS, areBothGood).catch(() => {});
  same('which is good at both', await statusesOf(foreign), [200, 200]);
  same('`keys owner` of today sets a plan', (await now.keys(env, ['owner', 'pia', '--limit', '1/366d'])).code, 0);
  const areBothOver = async () => (await statusesOf(key)).every((status) => status === 429);
  await waitForWithin(LAG_MAX_MS, areBothOver).catch(() => {});
  same('to which both hold her keys', await statusesOf(key), [429, 429]);
}

/** Tokens of a workload, whose rule or key is ended at one of both. */
async function workloads(old: ServerProcess, newer: ServerProcess, now: Version, env: Env, { say, same }: Report) {
  await using issuer = await createIssuer();
  const atBoth = async (token: string) => [await used(old.url, token), await used(newer.url, token)];
  for (const [what, end] of [
    ['the revocation of its key at the old one', ({ id }) => called(old.url, 'revoke_api_key', { keyId: id }, 'wanda')],
    ['that at the newer one', ({ id }) => called(newer.url, 'revoke_api_key', { keyId: id }, 'wanda')],
    ['`keys rule remove` of today', ({ ruleId }) => now.keys(env, ['rule', 'remove', ruleId])],
  ] as readonly [string, (made: { id: string; ruleId: string }) => Promise<unknown>][]) {
    const { id } = await called(old.url, 'create_api_key', { name: 'w', scopes: ['read'] }, 'wanda');
    const terms = ['--issuer', issuer.url, '--subject', what, '--audience', AUDIENCE];
    const ruleId = (await now.keys(env, ['rule', 'add', id, ...terms])).stdout.trim();
    const nowS = Math.floor(Date.now() / 1000);
    const token = await issuer.token({ sub: what, aud: AUDIENCE, iat: nowS, exp: nowS + 600 });
    await waitForWithin(LAG_MAX_MS, async () => !(await atBoth(token)).includes(401)).catch(() => {});
    same('a token of a workload is good at both', await atBoth(token), [200, 200]);
    await end({ id, ruleId });
    const endedMs = await waitFor(async () => !(await atBoth(token)).includes(200));
    say(`${what} ends it at both within 1,000 ms`, endedMs < LAG_MAX_MS, `${endedMs.toFixed(0)} ms`);
  }
}

/** Both use a key until each refuses it: contract section 15 bounds what is accepted beyond its limit. */
async function shareLimit(servers: readonly ServerProcess[], env: Env, { say, same }: Report) {
  const [first] = servers;
  const limits = { rateLimit: { requests: LIMIT, window: '1d' } };
  const { id, key } = await called(
    first?.url ?? '',
    'create_api_key',
    { name: 'l', scopes: ['read'], ...limits },
    'eve',
  );
  let busiest = 0;
  const accepted = servers.map(async ({ url }) => {
    const atMs: number[] = [];
    while ((await used(url, key)) === 200) {
      atMs.push(performance.now());
      busiest = Math.max(busiest, 2 * atMs.filter((at) => at > performance.now() - 500).length);
      await Bun.sleep(USE_EVERY_MS);
    }
    return atMs.length;
  });
  const uses = (await Promise.all(accepted)).reduce((sum, count) => sum + count, 0);
  const over = 2 * servers.length * (LIMIT / 32 + busiest * 0.5);
  say(
    `a limit of ${LIMIT} admits as many at both together, and at most ${over} more`,
    uses >= LIMIT && uses <= LIMIT + over,
    `${uses}, ${busiest} a second at the busiest`,
  );
  const db = openDatabase(env.DATABASE_URL ?? '');
  const sum = `SELECT sum(${ALL_DAYS}) AS uses FROM key_months n, api_keys k WHERE k.row = n.row AND k.id = '${id}'`;
  const written = async () => Number((await db.execute(sum)).rows[0]?.uses);
  await waitForWithin(WRITTEN_MS_MAX, async () => (await written()) === uses).catch(() => {});
  same('what both have counted is in the database, neither less nor more', await written(), uses);
  db.close();
  const shown = await Promise.all(
    servers.map(async ({ url }) => (await allKeys(url)).find((listed) => listed.id === id)?.uses.today),
  );
  same('and both show the sum', shown, [uses, uses]);
  return { id, key, uses };
}

/** The trail says of each change who made it, once. */
async function keepsTrail(env: Env, { same }: Report): Promise<void> {
  const db = openDatabase(env.DATABASE_URL ?? '');
  const none = async (sql: string) => (await db.execute(`${sql} LIMIT 5`)).rows;
  const nameless =
    "SELECT * FROM key_events WHERE how = 'sql' OR how NOT IN ('command', 'import') AND request_id IS NULL";
  same('no event lacks who made the change', await none(nameless), []);
  const twice =
    "SELECT key_id, kind FROM key_events WHERE kind IN ('created', 'deleted') GROUP BY 1, 2 HAVING count(*) > 1";
  same('no creation or deletion has two', await none(twice), []);
  const lost = `SELECT id FROM api_keys k WHERE NOT EXISTS
(SELECT 1 FROM key_events e WHERE e.key_id = k.id AND e.kind = iif(k.active, 'created', 'revoked'))`;
  same('none is missing', await none(lost), []);
  db.close();
}
