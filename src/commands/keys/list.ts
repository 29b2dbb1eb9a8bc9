// `keys list`: lists the keys of all owners, newest first, or the most used first.

import { createAdminStore, LAST_ROW, type PlacedKey } from '../../doors/admin/index.ts';
import type { Used } from '../../uses/shown-uses.ts';
import { command } from '../command.ts';
import { FILTER, flag, kind, optional, SPAN_MS } from '../options.ts';
import { withStoreToRead } from './database.ts';
import { filterOf, keyObject, keyPages, NARROW, PAGE_ROWS, usesOf, usesOf30Days, WIDE } from './key-output.ts';

const USES = kind('uses', 'uses', (given) => (given === 'uses' ? given : null));

export const verb = command({
  name: 'keys list',
  summary:
    'Lists keys, newest first, in 80 columns unless --wide. With --unused-for or --expires-within without those that are revoked or expired. --sort uses: the most used in 30 days first.',
  options: {
    ...FILTER,
    'expires-within': optional(SPAN_MS), // nobody revokes keys because they expire soon
    sort: optional(USES),
    wide: flag,
    json: flag,
  },
  run: ({ options: { sort, wide, json, ...options }, io }) =>
    withStoreToRead(io, async (store, { keyDefaults, publicUrl }) => {
      const nowMs = Date.now();
      const admin = createAdminStore(store.db);
      const filter = filterOf(options, nowMs);
      const { heads, cells } = wide ? WIDE : NARROW;
      /** Returns a row, with the uses if keys are sorted by them; in 80 columns they replace the last column. */
      const row = (cells: readonly string[], uses: string) =>
        sort ? [...(wide ? cells : cells.slice(0, -1)), uses] : cells;
      const writeCells = io.pagesUnder(row(heads, 'USES'));

      async function write(keys: readonly UsedKey[]): Promise<void> {
        if (json) {
          const children = await store.derived.countChildren(
            keys.map(({ key }) => key),
            nowMs,
          );
          return io.writeJson(
            keys.map(({ key, used }) =>
              keyObject(key, { used, keyDefaults, publicUrl, children: children.get(key.id) }),
            ),
          );
        }
        await writeCells(keys.map(({ key, used }) => row(cells(key, nowMs), `${usesOf30Days(used.uses)}`)));
      }

      async function used(keys: readonly PlacedKey[]): Promise<readonly UsedKey[]> {
        const usedOf = await usesOf(store, json || sort ? keys : []);
        return keys.map((key) => ({ key, used: usedOf(key.id) }));
      }

      const progress = io.progressOf('keys read');
      const pages = keyPages(admin, filter, nowMs, progress);
      if (sort === undefined) {
        for await (const page of pages) await write(await used(page));
        return;
      }
      const sorted = await mostUsed(pages, used);
      const written = io.progressOf('keys written');
      for (let from = 0; from < Math.max(1, sorted.length); from += PAGE_ROWS) {
        const ids = sorted.slice(from, from + PAGE_ROWS);
        const found = new Map((await admin.page({ ids }, nowMs, LAST_ROW, PAGE_ROWS)).map((key) => [key.id, key]));
        await write(await used(ids.flatMap((id) => found.get(id) ?? [])));
        written(from, sorted.length);
      }
    }),
});

/** Returns the ids of keys, the most used first. Only ids, because a million keys would not fit in memory. */
async function mostUsed(
  pages: AsyncIterable<readonly PlacedKey[]>,
  used: (keys: readonly PlacedKey[]) => Promise<readonly UsedKey[]>,
): Promise<readonly string[]> {
  const counts: { readonly id: string; readonly count: number }[] = [];
  for await (const page of pages) {
    for (const { key, used: one } of await used(page)) counts.push({ id: key.id, count: usesOf30Days(one.uses) });
  }
  return counts.sort((a, b) => b.count - a.count).map(({ id }) => id);
}

interface UsedKey {
  readonly key: PlacedKey;
  readonly used: Used;
}
