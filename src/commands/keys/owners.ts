// `keys owners`: lists owners that have keys or settings, by name.

import { createOwnerStore, type OwnersPage, pageOfOwners, writtenOwner } from '../../doors/owners/index.ts';
import { command } from '../command.ts';
import { flag } from '../options.ts';
import { withStoreToRead } from './database.ts';
import { ownersIn, writeOwners } from './shown-owner.ts';

export const verb = command({
  name: 'keys owners',
  summary: 'Lists owners who have keys or settings, with what counts for all their keys together.',
  options: { json: flag },
  run: ({ options: { json }, io }) =>
    withStoreToRead(io, async (store, config) => {
      const ownerStore = createOwnerStore(store.db);
      const reading = ownersIn(store, config);
      let isFirst = true;
      for (let after: string | null = ''; after !== null; ) {
        const { owners, next }: OwnersPage = await pageOfOwners(ownerStore, reading, after);
        const found = owners.map(writtenOwner);
        if (json) await io.writeJson(found);
        else if (isFirst || found.length > 0) await writeOwners(io, found, isFirst);
        isFirst = false;
        after = next;
      }
    }),
});
