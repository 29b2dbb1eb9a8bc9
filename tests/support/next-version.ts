// A version after this one, made up: this program with one more migration, and a row of facts about the table in it.

import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { ROOT } from './documents.ts';
import { diskFolder } from './folder.ts';

/** Those of this version, in order. */
export const MIGRATIONS = [...new Glob('*.sql').scanSync(join(ROOT, 'db'))]
  .sort()
  .map((file) => ({ name: file.replace('.sql', ''), sql: readFileSync(join(ROOT, 'db', file), 'utf8') }));

/** Like any later one it only adds, and what servers of this version write goes through its trigger, too. */
const NEXT = {
  name: `${String(MIGRATIONS.length + 1).padStart(4, '0')}_next`,
  sql: `CREATE TABLE nicknames (row INTEGER PRIMARY KEY, key_id TEXT, nickname TEXT, at_ms INTEGER NOT NULL) STRICT;

ALTER TABLE api_keys ADD COLUMN nickname TEXT;

CREATE TRIGGER nicknames_made AFTER INSERT ON api_keys
BEGIN
  INSERT INTO nicknames (key_id, nickname, at_ms) VALUES (new.id, new.name, unixepoch() * 1000);
END;
`,
};

export const NEXT_MIGRATIONS = [...MIGRATIONS, NEXT];

const FACTS = `{ ...RESTORED, name: 'nicknames', growsBy: 'row', inReplica: true,
  removals: [['DELETE FROM nicknames WHERE at_ms < unixepoch() * 1000 - 3600000']] },`;

const LIST_END = /(MIGRATIONS: readonly Migration\[\] = \[[^;]*?),?\s*\];/;

/** Returns the root of its source, which is run like this one's. */
export function nextVersion(): string {
  const root = diskFolder();
  for (const part of ['src', 'db', 'package.json']) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  writeFileSync(join(root, 'db', `${NEXT.name}.sql`), NEXT.sql);
  const edit = (file: string, pattern: string | RegExp, by: string, before = '') => {
    const source = readFileSync(join(root, file), 'utf8');
    const edited = source.replace(pattern, by);
    if (edited === source) throw new Error(`${file} is written otherwise`);
    writeFileSync(join(root, file), before + edited);
  };
  const entry = `{ name: '${NEXT.name}', sql: next }`;
  const imported = `import next from '../../db/${NEXT.name}.sql' with { type: 'text' };\n`;
  edit('src/store/schema.ts', LIST_END, `$1, ${entry}];`, imported);
  edit('src/store/tables.ts', 'TABLES: readonly TableFacts[] = [', `$&${FACTS}`);
  return root;
}
