// `keys restore`: restores a backup, even beside running servers, which then drop their caches.

import { reasonOf } from '../../ground/text.ts';
import { compare, type Restoring } from '../../store/backup/compare.ts';
import { type Backup, withBackup } from '../../store/backup/file.ts';
import { restore } from '../../store/backup/restore.ts';
import { command } from '../command.ts';
import { CommandError, type Io } from '../io.ts';
import { FILE, flag, needed } from '../options.ts';
import { withStoreOrNew } from './database.ts';
import { withPrivateFolder } from './private-folder.ts';

const OWNERS_SHOWN_MAX = 20;

export const verb = command({
  name: 'keys restore',
  summary:
    'Replaces all keys by those of a backup, or makes the database. Says how many secrets that were made since would be refused, and which that have ended since would work again, and asks.',
  options: { yes: flag },
  argument: needed(FILE),
  async run({ options: { yes }, argument: file, io }) {
    const restoreFrom = (backup: Backup) =>
      withStoreOrNew(io, async (store, { database }) => {
        const restoring = await compare(database, store.db, backup, Date.now(), io.progressOf(0, 'keys compared'));
        if (!restoring.isNew) await ask(restoring, backup, { io, yes });
        const progress = io.progressOf(0, 'keys and events compared');
        await restore(database, store.db, backup, { isNew: restoring.isNew, progress });
        io.say(`keys restored: ${backup.keys}; running servers forget what they know within REVOCATION_LAG_MAX_MS`);
      });
    await withPrivateFolder(io, (folder) => withBackup(file, folder, restoreFrom)).catch((error) => {
      throw error instanceof CommandError ? error : new CommandError(reasonOf(error));
    });
  },
});

async function ask(
  { replaced, refusedCount, revivedCount, revived, blockedAgain }: Restoring,
  backup: Backup,
  { io, yes }: { readonly io: Io; readonly yes: boolean },
) {
  const { say, confirm } = io;
  for (const { ended, keyId, owner, name, fingerprint } of revived)
    say(`${ended} since: ${keyId} of ${JSON.stringify(owner)}, ${JSON.stringify(name)}, fingerprint ${fingerprint}`);
  if (revivedCount > revived.length) say(`… and ${revivedCount - revived.length} more`);
  const shown = blockedAgain.slice(0, OWNERS_SHOWN_MAX).map((owner) => JSON.stringify(owner));
  const more = blockedAgain.length > shown.length ? ` and ${blockedAgain.length - shown.length} more` : '';
  if (shown.length > 0) say(`unblocked since, and blocked again: ${shown.join(', ')}${more}`);
  const refused = refusedCount === 0 ? '' : ` Created or rotated since, they will be refused: ${refusedCount}.`;
  const again =
    revivedCount === 0 ? '' : ` Revoked, deleted or rotated out since, they will work again: ${revivedCount}.`;
  await confirm(
    `Replace the keys that are there (${replaced}) by those of the backup (${backup.keys}).${refused}${again}`,
    yes,
  );
}
