// A process that inserts rows into a file as fast as it can, several at a time, and prints the ids that were
// acknowledged. `bun file-writer.ts <file> <rows>`: it begins when its stdin ends, and ends when so many rows were
// acknowledged.

import { embeddedDatabase } from '../../support/stores.ts';

const [file = '', rows = '0'] = process.argv.slice(2);
const AT_A_TIME = 4;
const INSERT = 'INSERT INTO written (id) VALUES (?) ON CONFLICT DO NOTHING';

const database = embeddedDatabase(file);
const acknowledged: string[] = [];
process.stdout.write('ready\n');
await Bun.stdin.text();
await Promise.all(
  Array.from({ length: AT_A_TIME }, async () => {
    while (acknowledged.length < Number(rows)) {
      const id = crypto.randomUUID();
      await database.write({ sql: INSERT, args: [id] });
      acknowledged.push(id);
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }),
);
process.stdout.write(JSON.stringify(acknowledged));
