// Reads and formats owners for the commands.

import type { Config } from '../../config/config.ts';
import type { writtenOwner } from '../../doors/owners/index.ts';
import { systemClock } from '../../ground/runtime.ts';
import type { Store } from '../../store/open.ts';
import { planStore } from '../../store/owner-settings.ts';
import { createShownUses, NOTHING_KNOWN } from '../../uses/shown-uses.ts';
import type { Io } from '../io.ts';

type WrittenOwner = ReturnType<typeof writtenOwner>;

/** Returns what reading owners like `admin_list_owners` needs; their uses are those written so far. */
export const ownersIn = (store: Store, config: Config) => ({
  planStore: planStore(store.db),
  config,
  usage: createShownUses(store, systemClock, NOTHING_KNOWN),
});

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
