// Reads and formats owners for the commands.

import type { Config } from '../../config/config.ts';
import { systemClock } from '../../ground/runtime.ts';
import { shownOwner } from '../../keys/owners.ts';
import type { Store } from '../../store/open.ts';
import { writtenOwner } from '../../tools/owner-fields.ts';
import { usesOf } from '../../uses/shown-uses.ts';
import type { Io } from '../io.ts';

export type WrittenOwner = Awaited<ReturnType<typeof ownersOf>>[number];

/** Returns owners like `admin_list_owners`, with the uses written so far. */
export async function ownersOf(
  store: Pick<Store, 'owners' | 'usesByDay' | 'admin'>,
  config: Config,
  names: readonly string[],
) {
  const known = () => undefined;
  const usesOfIds = (ids: readonly string[]) => usesOf(ids, { store, clock: systemClock, known });
  const owners = [];
  for (const stored of await store.owners.find(names, systemClock.nowMs())) {
    const owner = await shownOwner(stored, store.owners, usesOfIds, config);
    owners.push({ ...writtenOwner(owner), quotaShare: owner.quotaShare });
  }
  return owners;
}

const HEAD = ['OWNER', 'STATE', 'KEYS', 'LIMIT', 'QUOTA', 'USED', 'METADATA'];

export const writeOwners = (io: Io, owners: readonly WrittenOwner[], withHead = true): Promise<void> =>
  io.writeTable([...(withHead ? [HEAD] : []), ...owners.map(cellsOf)]);

const cellsOf = ({ owner, blocked, keys, keysMax, rateLimit, quota, quotaShare, metadata }: WrittenOwner) => [
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
