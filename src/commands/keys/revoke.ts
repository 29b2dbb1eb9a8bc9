// `keys revoke`: revokes anybody's keys, after it has said how many and asked.

import { countRevocable, createAdminStore, revokeAll, whyUnknown } from '../../doors/admin/index.ts';
import { command } from '../command.ts';
import { CommandError, keysCounted, UsageError } from '../io.ts';
import { FILTER, flag, ID, many, optional, wholeNumber } from '../options.ts';
import { byCommand, withStore } from './database.ts';
import { filterOf } from './key-output.ts';

/** How many unused keys a script revokes at once, unless told. */
const AT_MOST = 100;
const AT_MOST_MAX = 1_000_000;

export const verb = command({
  name: 'keys revoke',
  summary:
    'Revokes the keys that match all options, or --all, after asking, and prints their ids. An id may be that of a child. --yes: does not ask, and of unused keys revokes none if there are more than --at-most (100).',
  options: { ...FILTER, 'at-most': optional(wholeNumber('N', 1, AT_MOST_MAX)), all: flag, yes: flag },
  argument: many(ID),
  async run({ options: { all, yes, 'at-most': atMost, ...options }, argument: ids, io }) {
    const nowMs = Date.now();
    const filter = { ...filterOf(options, nowMs), ids: ids.length > 0 ? ids : undefined };
    const isFiltered = Object.values(filter).some((part) => part !== undefined);
    if (isFiltered === all) throw new UsageError('expected ids, or which keys, or --all');
    const { unusedSinceMs } = filter;
    if (atMost !== undefined && unusedSinceMs === undefined)
      throw new UsageError('expected --unused-for beside --at-most');
    await withStore(io, async ({ db, derived }) => {
      const keys = { store: createAdminStore(db), derived };
      const unknown = unusedSinceMs === undefined ? null : await whyUnknown(db, unusedSinceMs);
      if (unknown !== null) throw new CommandError(unknown);
      const count = await countRevocable(keys, filter, nowMs, io.progressOf('keys read'));
      if (count === 0) return io.say('there are no such active keys');
      if (yes && unusedSinceMs !== undefined && count > (atMost ?? AT_MOST))
        throw new CommandError(`${keysCounted(count)} fit, more than --at-most ${atMost ?? AT_MOST}; none was revoked`);
      const whose = filter.owner === undefined ? '' : ` of ${JSON.stringify(filter.owner)}`;
      await io.confirm(`Revoke ${keysCounted(count)}${whose}?`, yes);
      const progress = io.progressOf('revoked');
      let unwritten: unknown = null;
      // On stdout, to be saved: after a restore they must be revoked again.
      const revokedIds = async (ids: readonly string[], revoked: number) => {
        await io.write(ids.map((id) => `${id}\n`).join('')).catch((error) => {
          unwritten ??= error; // the rest is revoked too
        });
        progress(revoked, count);
      };
      const revoked = await revokeAll(keys, filter, nowMs, byCommand(io), revokedIds);
      io.say(`${revoked} revoked`);
      if (unwritten !== null) throw unwritten;
    });
  },
});
