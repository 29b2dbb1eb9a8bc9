// A program for Bun and Deno: three followers of one replica file, while keys and owners change. Responses of the primary
// arrive in an order that is drawn, so that it doesn't matter how fast the machine is. It compares the file with the
// primary's history at each position that the file has, and prints what the file said later than the primary did, and how
// much was compared.

import { join } from 'node:path';
import { createReplica } from '../../../../src/doors/copies/replica.ts';
import { embeddedDatabase } from '../../../../src/store/embedded/database.ts';
import { openSqlite } from '../../../../src/store/embedded/sqlite.ts';
import type { ReplicaOptions } from '../../../../src/store/remote/open.ts';
import { migrate } from '../../../../src/store/schema.ts';

const [folder = '', steps = '8000'] = process.argv.slice(2);
const path = join(folder, 'keys.db');
const file = join(folder, 'replica.db');
const turn = () => new Promise((done) => setImmediate(done));
const chance = (part: number) => Math.random() < part;

const read = embeddedDatabase(path);
await read.read({ sql: 'PRAGMA journal_mode = WAL' });
await migrate(read);
const primary = openSqlite(path, { lockWaitMs: 5000 });

/** Which change ended what was so, by a text that says what was so. */
const endedBy = new Map<string, number>();
const newestSeq = () => Number(primary.all({ sql: 'SELECT coalesce(max(seq), 0) AS seq FROM changes' })[0]?.seq);

function end(said: string, sql: string, ...args: string[]): void {
  primary.run({ sql, args });
  endedBy.set(said, newestSeq());
}

/** Keys that are there, each with the hash that it has and how often it was changed. */
const keys: { id: string; hash: string; version: number; owner: string }[] = [];
const blocked = new Set<string>();

function makeKey(nth: number): void {
  const owner = `owner ${nth % 7}`;
  const key = { id: `key ${nth}`, hash: crypto.randomUUID(), version: 0, owner };
  primary.run({
    sql: `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms) VALUES (?, ?, '0', ?, '[]', 1, 1)`,
    args: [key.id, owner, key.hash],
  });
  keys.push(key);
}

function changeKey(): void {
  const at = Math.floor(Math.max(keys.length - 1 - Math.random() * 3, 0)); // one that was made just now
  const key = keys[at];
  if (key === undefined) return;
  const said = `${key.id} ${key.version}`;
  if (chance(0.15)) {
    keys.splice(at, 1);
    end(said, 'DELETE FROM api_keys WHERE id = ?', key.id);
    return;
  }
  key.version += 1;
  key.hash = chance(0.3) ? crypto.randomUUID() : key.hash;
  end(said, 'UPDATE api_keys SET name = ?, key_hash = ? WHERE id = ?', String(key.version), key.hash, key.id);
}

let blocks = 0;
function changeBlock(): void {
  const owner = `owner ${Math.floor(Math.random() * 7)}`;
  if (blocked.delete(owner)) {
    const [row] = primary.all({ sql: 'SELECT changed_by FROM blocked_owners WHERE owner = ?', args: [owner] });
    end(`${owner} ${row?.changed_by}`, 'DELETE FROM blocked_owners WHERE owner = ?', owner);
    return;
  }
  blocked.add(owner);
  end(`not ${owner}`, 'INSERT INTO blocked_owners (owner) VALUES (?)', owner);
  endedBy.delete(`not ${owner}`);
  blocks += 1;
  primary.exec(`UPDATE blocked_owners SET changed_by = '${blocks}' WHERE owner = '${owner}'`);
}

const log = { info() {}, warn() {}, error() {} } as unknown as ReplicaOptions['log'];
const after = (_: number, run: () => void) => {
  const soon = setImmediate(run);
  return () => clearImmediate(soon);
};
const clock = { after, nowMs: Date.now, monotonicMs: () => performance.now() } as unknown as ReplicaOptions['clock'];

/** Responses that are on their way. Those with keys take long, so that others move on meanwhile. */
const held: { readonly hasKeys: boolean; arrive(): void }[] = [];
let isOver = false;
const slowly: ReplicaOptions['readPrimary'] = async (statement) => {
  const rows = await read.read(statement);
  const hasKeys = rows.length > 0 && statement.sql.includes('FROM "api_keys" t');
  if (!isOver) await new Promise<void>((arrive) => held.push({ hasKeys, arrive }));
  return rows;
};

function arrive(): void {
  const at = Math.floor(Math.random() * held.length);
  if (held[at]?.hasKeys && chance(0.9)) return;
  held.splice(at, 1)[0]?.arrive();
}

const followers = Array.from({ length: 3 }, () => createReplica({ file, readPrimary: slowly, clock, log }));
for (const follower of followers) follower.open();

const SAID = `SELECT f.pruned_seq AS seq, s.said FROM feed f LEFT JOIN (SELECT id || ' ' || name AS said FROM api_keys
UNION ALL SELECT owner || ' ' || changed_by FROM blocked_owners WHERE changed_by IS NOT NULL) s WHERE f.database_id NOT LIKE 'copying%'`;
const late = new Set<string>();
const positions = new Set<number>();

function compare(): void {
  for (const { seq, said } of replica.all({ sql: SAID })) {
    positions.add(Number(seq));
    const ended = endedBy.get(String(said));
    if (ended !== undefined && ended <= Number(seq)) late.add(`${said} at ${seq}, though it ended at ${ended}`);
  }
}

/** A step of the whole: something changes, or a response arrives. */
function step(nth: number): void {
  const drawn = Math.random();
  if (drawn < 0.06) makeKey(nth);
  else if (drawn < 0.12) changeKey();
  else if (drawn < 0.13) changeBlock();
  else arrive();
}

async function turns(): Promise<void> {
  for (let left = Math.random() * 4; left > 0; left -= 1) await turn();
}

const NOWHERE = { databaseId: '', seq: 0, mark: null };
for (let nth = 0; (await followers[0]?.state(NOWHERE)) === 'not_in_use'; nth += 1) {
  step(nth);
  await turns();
}
const replica = openSqlite(file, { lockWaitMs: 5000 });
for (let nth = 0; nth < Number(steps); nth += 1) {
  step(1_000_000 + nth);
  await turns();
  compare();
}
isOver = true;
for (const { arrive } of held) arrive();
for (const seq = newestSeq(); !positions.has(seq); compare()) await turn();
for (const follower of followers) await follower.close();
compare();
console.log(JSON.stringify({ late: [...late], positions: positions.size, keys: keys.length }));
process.exit(0);
