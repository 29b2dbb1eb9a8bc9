// `keys owners`: lists owners that have keys or settings, by name.

import { command } from '../command.ts';
import { flag } from '../options.ts';
import { withStore } from './database.ts';
import { ownersOf, writeOwners } from './shown-owner.ts';

const PAGE_OWNERS = 100;

export const verb = command({
  name: 'keys owners',
  summary: 'Lists owners who have keys or settings, with what counts for all their keys together.',
  options: { json: flag },
  run: ({ options: { json }, io }) =>
    withStore(io, async (store, config) => {
      let isFirst = true;
      for (let after = ''; ; ) {
        const names = await store.owners.namesAfter(after, PAGE_OWNERS);
        const found = await ownersOf(store, config, names);
        if (json) await io.writeJson(found);
        else if (isFirst || found.length > 0) await writeOwners(io, found, isFirst);
        isFirst = false;
        const last = names.at(-1);
        if (last === undefined || names.length < PAGE_OWNERS) return;
        after = last;
      }
    }),
});
