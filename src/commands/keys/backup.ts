// `keys backup`: a copy of the database, taken while servers run.

import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { backUp } from '../../store/backup.ts';
import { argumentsOf, CommandError, configOf, mustExist, oneOf, say, type Verb } from './verb.ts';

export const verb: Verb = {
  usage: '<file>',
  summary: 'Writes all there is into a new SQLite file that its owner alone can read; of a remote database too.',
  async run(args, env) {
    const { positionals } = argumentsOf(args, {}, verb, 1);
    const file = oneOf(positionals, 'file', verb);
    if (existsSync(file)) throw new CommandError('the file exists already');
    const { database } = configOf(env);
    mustExist(database);
    const unfinished = `${file}.part`; // whoever is interrupted leaves nothing that looks like a backup
    try {
      rmSync(unfinished, { force: true });
      await backUp(database, unfinished);
      renameSync(unfinished, file);
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw new CommandError((error as Error).message);
    }
    say(`${statSync(file).size} bytes written to ${file}`);
  },
};
