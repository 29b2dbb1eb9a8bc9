// A version after this one, made up: this program with one more migration.

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
  sql: `CREATE TABLE nicknames (key_id TEXT PRIMARY KEY, nickname TEXT NOT NULL) STRICT;

ALTER TABLE holders ADD COLUMN nickname TEXT;

CREATE TRIGGER nicknames_made AFTER INSERT ON api_keys
BEGIN
  INSERT INTO nicknames (key_id, nickname) VALUES (new.id, new.name);
END;
`,
};

export const NEXT_MIGRATIONS = [...MIGRATIONS, NEXT];

const LIST_END = /(MIGRATIONS: readonly Migration\[\] = \[[^;]*?),?\s*\];/;

/** Returns the root of its source, which is run like this one's. */
export function nextVersion(): string {
  const root = diskFolder();
  for (const part of ['src', 'db', 'package.json']) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  writeFileSync(join(root, 'db', `${NEXT.name}.sql`), NEXT.sql);
  const lists = join(root, 'src/store/schema.ts');
  const source = readFileSync(lists, 'utf8');
  const entry = `{ name: '${NEXT.name}', sql: next }`;
  const changed = source.replace(LIST_END, `$1, ${entry}];`);
  if (changed === source) throw new Error('src/store/schema.ts lists its migrations otherwise');
  writeFileSync(lists, `import next from '../../db/${NEXT.name}.sql' with { type: 'text' };\n${changed}`);
  return root;
}
