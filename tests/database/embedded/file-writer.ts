// A process that inserts rows into a file as fast as it can, several at a time, and prints the ids that were
// acknowledged. `bun file-writer.ts <driver|ours> <file> <rows>`: `driver` keeps one client of the driver and retries on
// it, as a naive program would. It begins when its stdin ends, and ends when so many rows were acknowledged.

import { createClient } from '@libsql/client';
import { embeddedDatabase } from '../../../src/database/embedded/database.ts';

const [kind, file = '', rows = '0'] = process.argv.slice(2);
const AT_A_TIME = 4;
const INSERT = 'INSERT INTO written (id) VALUES (?) ON CONFLICT DO NOTHING';

const insert = kind === 'driver' ? driverInsert() : ourInsert();
const acknowledged: string[] = [];
process.stdout.write('ready\n');
await Bun.stdin.text();
await Promise.all(
  Array.from({ length: AT_A_TIME }, async () => {
    while (acknowledged.length < Number(rows)) {
      const id = crypto.randomUUID();
      if (await insert(id)) acknowledged.push(id);
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }),
);
process.stdout.write(JSON.stringify(acknowledged));

function driverInsert() {
  const client = createClient({ url: `file:${file}`, concurrency: 1 });
  return async (id: string): Promise<boolean> => {
    for (let tries = 0; tries < 100; tries += 1) {
      try {
        await client.execute({ sql: INSERT, args: [id] });
        return true;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    }
    return false;
  };
}

function ourInsert() {
  const database = embeddedDatabase(file);
  return async (id: string): Promise<boolean> => (await database.write({ sql: INSERT, args: [id] })).ok;
}
