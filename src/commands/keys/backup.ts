// `keys backup`: a copy of the database, taken while servers run.

import { existsSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { backUp } from '../../database/backup/backup.ts';
import { reasonOf } from '../../lib/text.ts';
import { argumentsOf, oneOf } from './arguments.ts';
import { configOf, mustExist } from './database.ts';
import { removing, withPrivateFolder } from './private-folder.ts';
import { say } from './terminal.ts';
import { CommandError, type Verb } from './verb.ts';

const SHOW_EVERY_MS = 2000;

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/** On a terminal, on one line, which the returned function ends. Scripts can watch the size of the file. */
function showProgress(bytesWritten: () => number): () => void {
  if (!process.stderr.isTTY) return () => {};
  let isShown = false;
  const timer = setInterval(() => {
    isShown = true;
    process.stderr.write(`\r${(bytesWritten() / 1e6).toFixed(1)} MB written`);
  }, SHOW_EVERY_MS);
  return () => {
    clearInterval(timer);
    if (isShown) process.stderr.write('\n');
  };
}

export const verb: Verb = {
  usage: 'backup <file>',
  summary: 'Writes all there is into a new SQLite file that its owner alone can read; of a remote database too.',
  async run(args, env) {
    const { positionals } = argumentsOf(args, {}, 1);
    const file = oneOf(positionals, 'file');
    if (existsSync(file)) throw new CommandError('the file exists already');
    const { database } = configOf(env);
    mustExist(database);
    // An unfinished backup must not look complete, and no other process may write or remove it.
    const unfinished = `${file}.${crypto.randomUUID()}.part`;
    const write = async (folder: string) => {
      const copies = [unfinished, join(folder, 'copy.db')];
      const shown = showProgress(() => copies.reduce((bytes, copy) => bytes + sizeOf(copy), 0));
      await backUp({ config: database, file: unfinished, folder }).finally(shown);
      renameSync(unfinished, file);
    };
    try {
      await removing(unfinished, () => withPrivateFolder(write));
    } catch (error) {
      throw new CommandError(reasonOf(error));
    }
    say(`${statSync(file).size} bytes written to ${file}`);
  },
};
