// `keys backup`: a copy of the database, taken while servers run.

import { existsSync, rmSync, statSync } from 'node:fs';
import { backUp } from '../../store/backup.ts';
import { argumentsOf, CommandError, configOf, say, usageError, type Verb } from './verb.ts';

export const verb: Verb = {
  usage: '<file>',
  summary: 'Writes all there is into a new SQLite file that its owner alone can read; of a remote database too.',
  async run(args, env) {
    const { positionals } = argumentsOf(args, {}, verb);
    const [file, ...more] = positionals;
    if (file === undefined || more.length > 0) throw usageError(verb, 'expected one file');
    if (existsSync(file)) throw new CommandError('the file exists already');
    const { database } = configOf(env);
    if (database.mode === 'embedded' && !existsSync(database.path)) throw new CommandError('there is no database yet');
    try {
      await backUp(database, file);
    } catch (error) {
      rmSync(file, { force: true });
      throw new CommandError((error as Error).message);
    }
    say(`${statSync(file).size} bytes written to ${file}`);
  },
};
