// `keys restore`: puts a backup back, also under running servers, which then forget all they know.

import { reasonOf } from '../../lib/text.ts';
import { type Backup, compare, restore, withBackup } from '../../store/backup/backup.ts';
import { argumentsOf, oneOf } from './arguments.ts';
import { withStore } from './database.ts';
import { withPrivateFolder } from './private-folder.ts';
import { confirm, say } from './terminal.ts';
import { CommandError, type Verb } from './verb.ts';

export const verb: Verb = {
  usage: '<file> [--yes]',
  summary:
    'Replaces all keys by those of a backup. Says how many there are, and how many that were revoked since would work again, and asks.',
  async run(args, env) {
    const { values, positionals } = argumentsOf(args, { yes: { type: 'boolean' } }, verb, 1);
    const file = oneOf(positionals, 'file', verb);
    const restoreFrom = (backup: Backup) =>
      withStore(env, async (store, { database }) => {
        const { replaced, revived } = await compare(store.db, backup);
        const since =
          replaced === 0 || revived === 0 ? '' : `. Revoked or deleted since, they will work again: ${revived}`;
        await confirm(
          `Replace the keys that are there (${replaced}) by those of the backup (${backup.keys})${since}.`,
          values.yes === true,
        );
        await restore(database, store.db, backup);
        say(`keys restored: ${backup.keys}; running servers forget what they know within REVOCATION_LAG_MAX_MS`);
      });
    await withPrivateFolder((folder) => withBackup(file, folder, restoreFrom)).catch((error) => {
      throw error instanceof CommandError ? error : new CommandError(reasonOf(error));
    });
  },
};
