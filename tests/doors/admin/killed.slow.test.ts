// kill -9 in the middle of `keys usage`, of a removal, and of the end of unused keys, at a primary: a gate holds a response,
// so that the statement is carried out and whoever sent it never learns of it. Repeated, each comes to the same end.

import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test';
import { addUses } from '../../store/stored.ts';
import { userHeaders } from '../../support/client.ts';
import { callServer } from '../../support/cluster.ts';
import { openDatabase } from '../../support/database-client.ts';
import { fillKeys, fillUses } from '../../support/fill.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { jsonLines, keysCommand, startKeys } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { startServer } from '../../support/server-process.ts';
import type { Sqld } from '../../support/sqld.ts';
import { startPrimary } from '../../support/template.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

/** More than two statements of a removal take (100 keys each), or of revoking (200 each). */
const KEYS = 450;
const DAYS = 31;
/** What fillUses counts for each key on each day. */
const UNITS_A_DAY = 5;
const OLD_MS = Date.now() - 100 * 86_400_000;

let primary: Sqld;
let proxy: Awaited<ReturnType<typeof startProxy>>;
/** For commands that are killed: what they send can be held. */
let held: Record<string, string>;
beforeAll(async () => {
  primary = await startPrimary();
  proxy = await startProxy(primary.url);
  held = { ...primary.env, DATABASE_URL: proxy.url };
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await primary.kill();
});

/** All keys are of acme, but for three of another owner. */
beforeEach(async () => {
  using db = openDatabase(primary.url);
  for (const table of ['api_keys', 'ended_uses', 'owners', 'holders', 'key_events', 'exchanges'])
    await db.execute(`DELETE FROM ${table}`);
  await fillKeys(db, KEYS + 3);
  await fillUses(db, DAYS);
  await db.execute(`UPDATE api_keys SET user_id = iif(CAST(substr(name, 5) AS REAL) > ${KEYS}, 'other', 'acme')`);
  await db.execute('DELETE FROM ended_uses');
});

const keys = (...args: string[]) => keysCommand(primary.env, args);
const ofAcme = KEYS * DAYS * UNITS_A_DAY;
const ofOther = 3 * DAYS * UNITS_A_DAY;

/** Units by owner. */
async function billed(): Promise<Record<string, number>> {
  const lines = jsonLines(await keys('usage', '--days', '62', '--json'));
  return Object.fromEntries(lines.map(({ owner, units }) => [owner, units]));
}

const eventsOfAcme = async () => jsonLines(await keys('events', '--user', 'acme', '--limit', '10000', '--json'));

/** Of how many keys of acme there are events of a kind, and how many of one at most. */
async function eventsOf(kind: string): Promise<{ readonly keys: number; readonly most: number }> {
  const events = (await eventsOfAcme()).filter((event) => event.kind === kind);
  const each = [...Map.groupBy(events, ({ keyId }) => keyId).values()].map(({ length }) => length);
  return { keys: each.length, most: Math.max(...each) };
}

/** Runs a command until the response to the `nth` statement with this text is there, and kills it. */
async function killAt(text: string, nth: number, ...args: string[]): Promise<void> {
  let gate = proxy.delayResponseTo(text);
  const command = startKeys(held, args, temporaryFolder());
  for (let at = 1; at < nth; at += 1) {
    await gate.made;
    const next = proxy.delayResponseTo(text);
    gate.release();
    gate = next;
  }
  await gate.made;
  command.kill('SIGKILL');
  await command.exited;
}

test('keys usage', async () => {
  const before = await billed();
  expect(before).toEqual({ acme: ofAcme, other: ofOther });
  await killAt('FROM key_months WHERE', 1, 'usage', '--days', '62');
  expect(await billed()).toEqual(before);
});

test.each<[string, string, number]>([
  ['its keys are half gone', 'UPDATE api_keys SET deleting', 2],
  ['its keys are gone', 'UPDATE api_keys SET deleting', Math.ceil(KEYS / 100)],
  ['it is gone', 'INSERT INTO owners', 1],
  ['its events are gone', 'DELETE FROM key_events', 1],
])('keys owner --delete, when %s', async (_, text, nth) => {
  const args = ['owner', 'acme', '--delete', '--yes'];
  await killAt(text, nth, ...args);
  const left = jsonLines(await keys('list', '--user', 'acme', '--json')).length;
  expect(left).toBe(Math.max(0, KEYS - (text.startsWith('UPDATE') ? 100 * nth : KEYS)));
  expect(await billed()).toEqual({ other: ofOther, ...(text.startsWith('UPDATE') && { acme: ofAcme }) });
  expect((await keys(...args)).code).toBe(0);
  expect(jsonLines(await keys('list', '--user', 'acme', '--json'))).toEqual([]);
  expect(await billed()).toEqual({ other: ofOther });
  expect((await eventsOfAcme()).map(({ kind }) => kind)).toEqual(['owner_deleted']);
});

test.each(['carried out', 'late'])('delete_api_key, whose statement is %s', async (order) => {
  const env = { JWT_SECRET: TEST_SECRET };
  await using killed = await startServer({ env: { ...held, ...env } });
  await using other = await startServer({ env: { ...primary.env, ...env } });
  const acme = await userHeaders('acme');
  const [{ id: keyId }] = jsonLines(await keys('list', '--user', 'acme', '--json'));
  const remove = (at: { url: string }) => callServer(at, 'delete_api_key', { keyId }, acme);
  const text = 'UPDATE api_keys SET deleting';
  const sent = proxy.sent(text);
  const { made = waitFor(() => proxy.sent(text) > sent) } = order === 'late' ? {} : proxy.delayResponseTo(text);
  const arrive = order === 'late' ? proxy.holdUp(text) : async () => {};
  const first = remove(killed).catch(() => null);
  await made;
  await killed.kill();
  expect(await first).toBeNull();
  expect((await remove(other)).status).toBe(200); // also when there is no such key
  await arrive();
  expect(await billed()).toEqual({ acme: ofAcme, other: ofOther });
  const lines = jsonLines(await keys('usage', '--days', '62', '--by', 'key', '--owner', 'acme', '--json'));
  expect(lines).toHaveLength(KEYS);
  expect(lines.filter((line) => line.keyId === undefined)).toMatchObject([{ units: DAYS * UNITS_A_DAY }]);
  expect(await eventsOf('deleted')).toEqual({ keys: 1, most: 1 });
});

test('keys revoke --unused-for, of which the rest is used meanwhile', async () => {
  const db = openDatabase(primary.url);
  await db.execute(`UPDATE api_keys SET created_at_ms = ${OLD_MS}`);
  await db.execute('DELETE FROM key_months');
  await db.execute("INSERT INTO exchanges (instance, number) VALUES ('test', 1)");
  const args = ['revoke', '--unused-for', '90d', '--user', 'acme', '--yes', '--at-most', '1000'];
  await db.execute('DELETE FROM key_events');
  await killAt('UPDATE api_keys SET active = 0', 2, ...args);
  expect(await eventsOf('revoked')).toEqual({ keys: 400, most: 1 });
  const active = async () => jsonLines(await keys('list', '--user', 'acme', '--json')).filter((key) => key.active);
  const [used, ...unused] = await active();
  expect(unused).toHaveLength(KEYS - 401);
  await addUses(primary.url, used.id, Math.floor(Date.now() / 86_400_000), 1);
  db.close();
  expect((await keys(...args)).code).toBe(0);
  expect((await active()).map(({ id }) => id)).toEqual([used.id]);
  expect(await eventsOf('revoked')).toEqual({ keys: KEYS - 1, most: 1 });
});
