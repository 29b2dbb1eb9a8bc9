// Servers on one file, one of which is killed again and again while clients of each change keys: what was acknowledged, and
// what the trail says.

import { join } from 'node:path';
import { postJson, userHeaders } from '../../support/client.ts';
import { openDatabase } from '../../support/database-client.ts';
import { diskFolder } from '../../support/folder.ts';
import { type Runtime, type ServerProcess, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

/** Of each server; more than one commit takes. */
const CLIENTS = 16;
/** A server is killed after so many changes, at any moment of the next ones. */
const CHANGES_MIN = 6;
const CHANGES_MAX = 16;
const LIFE_MS_MAX = 20;

/** How many changes were acknowledged, and what is wrong. */
export async function killRounds(rounds: number, runtime: Runtime = 'bun', servers = 1) {
  const url = `file:${join(diskFolder(), 'keys.db')}`;
  const env = {
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: url,
    LOG_LEVEL: 'error',
    TRUST_PROXY: '1',
    RATE_LIMIT_REQUESTS: '0',
  };
  /** Kind of the change by the id of its request. */
  const sent = new Map<string, string>();
  const acknowledged = new Map<string, string>();

  async function client(server: ServerProcess, name: string): Promise<void> {
    const user = await userHeaders(name);
    /** Null: it is not known whether it was done. */
    async function change(
      kind: string,
      path: string,
      body: object,
      headers = {},
    ): Promise<Record<string, string> | null> {
      const requestId = `${name}-${sent.size}`;
      sent.set(requestId, kind);
      try {
        const response = await postJson(server.url + path, body, { 'x-request-id': requestId, ...headers });
        const result = await response.json();
        if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
        acknowledged.set(requestId, kind);
        return result;
      } catch (error) {
        if (error instanceof Error && /: \d+$/.test(error.message)) throw error;
        return null; // killed
      }
    }
    const onTool = (kind: string, tool: string, body: object) => change(kind, `/tools/${tool}`, body, user);

    for (let turn = 0; ; turn += 1) {
      const made = await onTool('created', 'create_api_key', { name, scopes: ['read'] });
      if (made === null) return;
      const keyId = made.id;
      const rotated = await onTool('rotated', 'rotate_api_key', { keyId });
      if (rotated === null) return;
      if ((await change('first_used', '/tools/get_data', {}, { 'x-api-key': rotated.key })) === null) return;
      if ((await onTool('rotated', 'rotate_api_key', { keyId, overlapHours: 0 })) === null) return;
      const again = await onTool('rotated', 'rotate_api_key', { keyId });
      if (again === null) return;
      const ended = turn % 2 === 0 ? await change('revoked', '/revoke', [again.key]) : {};
      if (ended === null || (await onTool('revoked', 'revoke_api_key', { keyId })) === null) return;
      if (turn % 3 === 0 && (await onTool('deleted', 'delete_api_key', { keyId })) === null) return;
    }
  }

  let started = 0;
  async function start() {
    const server = await startServer({ runtime, env });
    started += 1;
    return {
      server,
      clients: Promise.all(Array.from({ length: CLIENTS }, (_, n) => client(server, `s${started}-${n}`))),
    };
  }

  const running = await Promise.all(Array.from({ length: servers }, start));
  for (let round = 0; round < rounds; round += 1) {
    const next = running.shift();
    const before = acknowledged.size;
    const changes = CHANGES_MIN + Math.floor(Math.random() * (CHANGES_MAX - CHANGES_MIN));
    while (acknowledged.size < before + changes) await Bun.sleep(1);
    await Bun.sleep(Math.random() * LIFE_MS_MAX);
    await next?.server.kill();
    await next?.clients;
    if (round < rounds - servers) running.push(await start()); // the last ones are killed too
  }
  return { acknowledged: acknowledged.size, faults: await faultsIn(url, sent, acknowledged) };
}

/** Acknowledged changes without exactly one event of their kind, events that nobody asked for, half changes. */
async function faultsIn(url: string, sent: ReadonlyMap<string, string>, acknowledged: ReadonlyMap<string, string>) {
  const db = openDatabase(url);
  const { rows: events } = await db.execute('SELECT request_id, kind FROM key_events');
  const { rows: half } =
    await db.execute(`SELECT id FROM api_keys k WHERE changed_by IS NOT NULL OR deleting IS NOT NULL
OR (second_hash IS NULL) <> (second_is IS NULL)
OR rotations <> (SELECT count(*) FROM key_events WHERE key_id = k.id AND kind = 'rotated')`);
  db.close();
  const faults = half.map(({ id }) => `half a change: ${id}`);
  const seen = new Map<string, string>();
  for (const { request_id, kind } of events) {
    const id = String(request_id);
    if (seen.has(id)) faults.push(`two events of ${id}`);
    if (sent.get(id) !== kind) faults.push(`${kind} by ${id}, which asked for ${sent.get(id)}`);
    seen.set(id, String(kind));
  }
  for (const [id, kind] of acknowledged) if (seen.get(id) !== kind) faults.push(`no event of ${id}: ${kind}`);
  return faults;
}
