// `keys owner`: shows and sets the limits of all keys of an owner together, or removes an owner with all keys. `keys owners`
// lists owners that have keys or settings, by name.

import type { Config } from '../../config/config.ts';
import {
  createOwnerStore,
  type OwnersPage,
  ownerNamed,
  pageOfOwners,
  removeOwner,
  updateOwner,
  writtenOwner,
} from '../../doors/owners/index.ts';
import { OWNER_KEYS_MAX, parseSharedLimit, SHARED_WINDOW_S_MIN } from '../../ground/rate-limit.ts';
import { systemClock } from '../../ground/runtime.ts';
import type { Store } from '../../store/open.ts';
import { planStore } from '../../store/owner-settings.ts';
import { createShownUses, NOTHING_KNOWN } from '../../uses/shown-uses.ts';
import { command } from '../command.ts';
import { type Io, UsageError } from '../io.ts';
import { flag, kind, LIMIT, META, needed, OWNER, optionalOr, QUOTA, wholeNumber } from '../options.ts';
import { byCommand, withStore, withStoreToRead } from './database.ts';

/** The word that removes a setting, so that the server's applies. */
const DEFAULT = 'default';

const SHARED_LIMIT = kind(
  LIMIT.name,
  `calls in a window of ${SHARED_WINDOW_S_MIN}s to 366 days, like 1000/1h`,
  parseSharedLimit,
);

export const owner = command({
  name: 'keys owner',
  summary: `Shows what counts for all keys of an owner together, and sets what is given. --meta replaces all data. --delete removes the owner with all keys, settings, counts and events; a block stays.`,
  options: {
    limit: optionalOr(SHARED_LIMIT, DEFAULT),
    quota: optionalOr(QUOTA, DEFAULT),
    keys: optionalOr(wholeNumber('N', 0, OWNER_KEYS_MAX), DEFAULT),
    meta: META,
    delete: flag,
    yes: flag,
    json: flag,
  },
  argument: needed(OWNER),
  async run({ options: { delete: isLeaving, yes, json, ...given }, argument: name, io }) {
    const { limit: rateLimit, quota, keys: keysMax, meta: metadata } = given;
    const settings = { rateLimit, quota, keysMax, metadata };
    const isGiven = Object.values(settings).some((one) => one !== undefined);
    if (isLeaving && isGiven) throw new UsageError('expected nothing to set beside --delete');
    const open = isLeaving || isGiven ? withStore : withStoreToRead;
    await open(io, async (store, config) => {
      if (isLeaving) return remove(store, name, yes, io);
      if (isGiven) await updateOwner(createOwnerStore(store.db), name, settings, byCommand(io));
      const found = [writtenOwner(await ownerNamed(ownersIn(store, config), name))];
      await (json ? io.writeJson(found) : io.writeTable([HEAD, ...found.map(cellsOf)]));
    });
  },
});

export const owners = command({
  name: 'keys owners',
  summary: 'Lists owners who have keys or settings, with what counts for all their keys together.',
  options: { json: flag },
  run: ({ options: { json }, io }) =>
    withStoreToRead(io, async (store, config) => {
      const ownerStore = createOwnerStore(store.db);
      const reading = ownersIn(store, config);
      const writeCells = io.pagesUnder(HEAD);
      for (let after: string | null = ''; after !== null; ) {
        const page: OwnersPage = await pageOfOwners(ownerStore, reading, after);
        const found = page.owners.map(writtenOwner);
        await (json ? io.writeJson(found) : writeCells(found.map(cellsOf)));
        after = page.next;
      }
    }),
});

async function remove({ db }: Store, owner: string, yes: boolean, io: Io): Promise<void> {
  const owners = createOwnerStore(db);
  if (!(await owners.isKept(owner))) return io.say(`there is nothing of ${JSON.stringify(owner)} to delete`);
  const keys = (await planStore(db).findOwner(owner))?.keys ?? 0;
  await io.confirm(
    `Delete ${JSON.stringify(owner)} with ${keys} ${keys === 1 ? 'key' : 'keys'}, settings, counts and events? Then keys usage knows nothing of this owner any more.`,
    yes,
  );
  const progress = io.progressOf('deleted');
  await removeOwner(owners, owner, byCommand(io), (deleted) => progress(deleted, keys));
  io.say(`deleted ${JSON.stringify(owner)}`);
}

/** Returns what reading owners like `admin_list_owners` needs; their uses are those written so far. */
const ownersIn = (store: Store, config: Config) => ({
  planStore: planStore(store.db),
  config,
  usage: createShownUses(store, systemClock, NOTHING_KNOWN),
});

const HEAD = ['OWNER', 'STATE', 'KEYS', 'LIMIT', 'QUOTA', 'USED', 'METADATA'];

const cellsOf = ({
  owner,
  blocked,
  keys,
  keysMax,
  rateLimit,
  quota,
  quotaShare,
  metadata,
}: ReturnType<typeof writtenOwner>) => [
  owner,
  blocked ? 'blocked' : 'active',
  `${keys}/${keysMax}`,
  rateLimit === null ? '-' : `${rateLimit.requests}/${rateLimit.window}`,
  quota === null ? '-' : `${quota.requests}/${quota.period}`,
  quotaShare === null ? '-' : `${Math.floor(quotaShare * 100)} %`,
  metadata === null
    ? '-'
    : Object.entries(metadata)
        .map(([name, value]) => `${name}=${value}`)
        .join(' '),
];
