// `keys list`: the keys of all owners, newest first.

import { LAST_ROW, type PlacedKey } from '../../keys/admin.ts';
import type { Uses } from '../../uses/shown-uses.ts';
import { command } from '../command.ts';
import { FILTER, flag, kind, optional, SPAN_MS } from '../options.ts';
import { filterOf, withStore } from './database.ts';
import { keyObject, NARROW, usesOf, usesOf30Days, WIDE } from './shown-key.ts';

const PAGE_ROWS = 500;

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
    withStore(io, async (store, { keyQuota }) => {
      const nowMs = Date.now();
      const filter = filterOf(options, nowMs);
      const { heads, cells } = wide ? WIDE : NARROW;
      /** Adds the uses when sorted by them; 80 columns have room only in place of the last column. */
      const row = (cells: readonly string[], uses: string) =>
        sort ? [...(wide ? cells : cells.slice(0, -1)), uses] : cells;
      let head = [row(heads, 'USES')];

      async function write(keys: readonly UsedKey[]): Promise<void> {
        if (json) return io.writeJson(keys.map(({ key, uses }) => keyObject(key, { uses, keyQuota })));
        await io.writeTable([...head, ...keys.map(({ key, uses }) => row(cells(key, nowMs), `${usesOf30Days(uses)}`))]);
        head = [];
      }

      const all: UsedKey[] = [];
      for (let before: number | undefined = LAST_ROW; before !== undefined; ) {
        const page: readonly PlacedKey[] = await store.admin.page(filter, nowMs, before, PAGE_ROWS);
        const uses = json || sort ? await usesOf(store, page) : NO_USES;
        const keys = page.map((key) => ({ key, uses: uses.get(key.id) }));
        if (sort) all.push(...keys);
        else await write(keys);
        before = page.length < PAGE_ROWS ? undefined : page.at(-1)?.row;
      }
      if (sort) await write(all.sort((a, b) => usesOf30Days(b.uses) - usesOf30Days(a.uses)));
    }),
});

interface UsedKey {
  readonly key: PlacedKey;
  readonly uses: Uses | undefined;
}

const NO_USES: ReadonlyMap<string, Uses> = new Map();
