// `keys backup`: copies the database to a file while servers run.

import { existsSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { backUp } from '../../doors/copies/index.ts';
import { reasonOf } from '../../ground/text.ts';
import { command } from '../command.ts';
import { CommandError, configOf, type Io } from '../io.ts';
import { FILE, needed } from '../options.ts';
import { mustExist } from './database.ts';
import { removing } from './private-folder.ts';

const SHOW_EVERY_MS = 2000;

/** Shows progress on a terminal until the returned function is called. Scripts can watch the size of the file. */
function showProgress({ stderr }: Io, bytesWritten: () => number): () => void {
  if (!stderr.isTTY) return () => {};
  let isShown = false;
  const timer = setInterval(() => {
    isShown = true;
    stderr.write(`\r${(bytesWritten() / 1e6).toFixed(1)} MB written`);
  }, SHOW_EVERY_MS);
  return () => {
    clearInterval(timer);
    if (isShown) stderr.write('\n');
  };
}

function mustBeNew(file: string): void {
  if (existsSync(file)) throw new CommandError('the file exists already');
}

export const verb = command({
  name: 'keys backup',
  summary:
    'Writes all but children and open requests for keys into a new SQLite file that its owner alone can read; of a remote database too.',
  argument: needed(FILE),
  async run({ argument: file, io }) {
    mustBeNew(file);
    const folder = dirname(file);
    if (!existsSync(folder)) throw new CommandError(`there is no folder ${JSON.stringify(folder)}`);
    const { database } = configOf(io);
    mustExist(database);
    // An unfinished backup must not look complete, nor be written or removed by another process.
    const unfinished = `${file}.${crypto.randomUUID()}.part`;
    const write = async () => {
      const shown = showProgress(io, () => statSync(unfinished, { throwIfNoEntry: false })?.size ?? 0);
      await backUp(database, unfinished).finally(shown);
      mustBeNew(file); // meanwhile another backup may have made it
      renameSync(unfinished, file);
    };
    try {
      await removing(
        ['', '-wal', '-shm', '-journal'].map((part) => `${unfinished}${part}`),
        write,
      );
    } catch (error) {
      if (error instanceof CommandError) throw error;
      const { syscall } = error as NodeJS.ErrnoException;
      throw new CommandError(`${syscall === undefined ? '' : "the file can't be written: "}${reasonOf(error)}`);
    }
    io.say(`${statSync(file).size} bytes written to ${file}`);
  },
});
