// kill -9 in the middle of a stream of creates, revokes and deletes: nothing acknowledged is lost.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { everything } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const ROUNDS = everything ? 20 : 5;
const CLIENTS = 8;

/** What a key must be after what was acknowledged; a later step that was not acknowledged may have happened too. */
type State = 'active' | 'revoked' | 'deleted';

interface Ledger {
  readonly acknowledged: State;
  /** The step under way when the server died, if any. */
  readonly attempted: State | null;
}

test(`kill -9, ${ROUNDS} rounds`, async () => {
  const folder = temporaryFolder();
  const env = { JWT_SECRET: TEST_SECRET };
  const keys = new Map<string, Ledger>();
  let acknowledged = 0;

  for (let round = 0; round < ROUNDS; round += 1) {
    const server = await startServer({ folder, env });

    const client = async (user: string) => {
      const headers = await userHeaders(user);
      const step = async (id: string, state: State, tool: string) => {
        const before = keys.get(id)?.acknowledged ?? 'active';
        keys.set(id, { acknowledged: before, attempted: state });
        const { status } = await callOver(server.url, tool, { keyId: id }, headers);
        if (status !== 200) throw new Error(`${tool} responded ${status}`);
        keys.set(id, { acknowledged: state, attempted: null });
        acknowledged += 1;
      };
      for (let count = 0; ; count += 1) {
        const { status, body } = await callOver(server.url, 'create_api_key', { name: 'n', scopes: ['read'] }, headers);
        if (status !== 200) throw new Error(`create_api_key responded ${status}`);
        keys.set(body.id, { acknowledged: 'active', attempted: null });
        acknowledged += 1;
        if (count % 3 > 0) await step(body.id, 'revoked', 'revoke_api_key');
        if (count % 3 > 1) await step(body.id, 'deleted', 'delete_api_key');
      }
    };

    const clients = Array.from({ length: CLIENTS }, (_, index) =>
      client(`user ${round} ${index}`).catch((error: Error) => error.message),
    );
    const enough = acknowledged + CLIENTS;
    await Bun.sleep(50 + ((round * 37) % 150));
    await waitFor(() => acknowledged > enough);
    await server.kill();
    for (const reason of await Promise.all(clients)) expect(reason).not.toContain('responded');
  }

  const found = new Map<string, State>();
  // The restart needs no help, and the file is whole.
  await using server = await startServer({ folder, env });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let index = 0; index < CLIENTS; index += 1) {
      const { body } = await callOver(server.url, 'list_api_keys', {}, await userHeaders(`user ${round} ${index}`));
      for (const { id, active } of body.keys) found.set(id, active ? 'active' : 'revoked');
    }
  }
  const lost = [...keys].filter(([id, ledger]) => {
    const state = found.get(id) ?? 'deleted';
    return state !== ledger.acknowledged && state !== ledger.attempted;
  });
  expect(lost).toEqual([]);
  await server.stop();
  const db = openDatabase(`file:${join(folder, 'data/keys.db')}`);
  const { rows } = await db.execute('PRAGMA integrity_check');
  db.close();
  expect(rows.map((row) => row.integrity_check)).toEqual(['ok']);
}, 180_000);
