// `keys owner`: shows and sets the limits of all keys of an owner together, or removes an owner with all keys.

import { createOwnerStore, ownerNamed, removeOwner, updateOwner, writtenOwner } from '../../doors/owners/index.ts';
import { OWNER_KEYS_MAX, parseSharedLimit, SHARED_WINDOW_S_MIN } from '../../ground/rate-limit.ts';
import type { Store } from '../../store/open.ts';
import { planStore } from '../../store/owner-settings.ts';
import { command } from '../command.ts';
import { type Io, UsageError } from '../io.ts';
import { flag, kind, LIMIT, META, needed, OWNER, optional, orNull, orWord, QUOTA, wholeNumber } from '../options.ts';
import { byCommand, withStore, withStoreToRead } from './database.ts';
import { ownersIn, writeOwners } from './shown-owner.ts';

/** The word that removes a setting, so that the server's applies. */
const DEFAULT = 'default';

const SHARED_LIMIT = kind(
  LIMIT.name,
  `calls in a window of ${SHARED_WINDOW_S_MIN}s to 366 days, like 1000/1h`,
  parseSharedLimit,
);

export const verb = command({
  name: 'keys owner',
  summary: `Shows what counts for all keys of an owner together, and sets what is given. --meta replaces all data. --delete removes the owner with all keys, settings, counts and events; a block stays.`,
  options: {
    limit: optional(orWord(SHARED_LIMIT, DEFAULT)),
    quota: optional(orWord(QUOTA, DEFAULT)),
    keys: optional(orWord(wholeNumber('N', 0, OWNER_KEYS_MAX), DEFAULT)),
    meta: META,
    delete: flag,
    yes: flag,
    json: flag,
  },
  argument: needed(OWNER),
  async run({ options: { limit, quota, keys, meta, delete: isLeaving, yes, json }, argument: owner, io }) {
    const settings = {
      rateLimit: orNull(limit),
      quota: orNull(quota),
      keysMax: orNull(keys),
      metadata: meta,
    };
    const isGiven = Object.values(settings).some((given) => given !== undefined);
    if (isLeaving && isGiven) throw new UsageError('expected nothing to set beside --delete');
    const open = isLeaving || isGiven ? withStore : withStoreToRead;
    await open(io, async (store, config) => {
      if (isLeaving) return remove(store, owner, yes, io);
      if (isGiven) await updateOwner(createOwnerStore(store.db), owner, settings, byCommand(io));
      const found = [writtenOwner(await ownerNamed(ownersIn(store, config), owner))];
      if (json) return io.writeJson(found);
      await writeOwners(io, found);
    });
  },
});

async function remove({ db }: Store, owner: string, yes: boolean, io: Io): Promise<void> {
  const owners = createOwnerStore(db);
  if (!(await owners.isKept(owner))) return io.say(`there is nothing of ${JSON.stringify(owner)} to delete`);
  const keys = (await planStore(db).findOwner(owner))?.keys ?? 0;
  await io.confirm(
    `Delete ${JSON.stringify(owner)} with ${keys} ${keys === 1 ? 'key' : 'keys'}, settings, counts and events? Then keys usage knows nothing of this owner any more.`,
    yes,
  );
  const progress = io.progressOf(keys, 'deleted');
  await removeOwner(owners, owner, byCommand(io), progress);
  io.say(`deleted ${JSON.stringify(owner)}`);
}
