// `keys list`: the keys of all owners, newest first.

import { LAST_ROW, type PlacedKey } from '../../keys/admin.ts';
import type { Uses } from '../../uses/shown-uses.ts';
import { argumentsOf, filterOf, LIST_OPTIONS } from './arguments.ts';
import { orFail, withStore } from './database.ts';
import { keyObject, NARROW, usesOf, usesOf30Days, WIDE } from './shown-key.ts';
import { writeJson, writeTable } from './terminal.ts';
import { UsageError, type Verb } from './verb.ts';

const PAGE_ROWS = 500;

export const verb: Verb = {
  usage:
    'list [--user OWNER] [--scope S] [--created-after T] [--unused-for 90d] [--expires-within 14d] [--sort uses] [--wide | --json]',
  summary:
    'Lists keys, newest first, in 80 columns unless --wide. The last two filters leave out keys that are revoked or expired. --sort uses: the most used in 30 days first.',
  async run(args, env) {
    const { values } = argumentsOf(args, {
      ...LIST_OPTIONS,
      sort: { type: 'string' },
      wide: { type: 'boolean' },
      json: { type: 'boolean' },
    });
    if (values.sort !== undefined && values.sort !== 'uses') throw new UsageError('--sort: expected uses');
    const nowMs = Date.now();
    const filter = filterOf(values, nowMs);
    const isSorted = values.sort !== undefined;
    await withStore(env, async (store, { keyQuota }) => {
      const { heads, cells } = values.wide ? WIDE : NARROW;
      /** Adds the uses when sorted by them; 80 columns have room only in place of the last column. */
      const row = (cells: readonly string[], uses: string) =>
        isSorted ? [...(values.wide ? cells : cells.slice(0, -1)), uses] : cells;
      let head = [row(heads, 'USES')];

      async function write(keys: readonly UsedKey[]): Promise<void> {
        if (values.json) return writeJson(keys.map(({ key, uses }) => keyObject(key, { uses, keyQuota })));
        await writeTable([...head, ...keys.map(({ key, uses }) => row(cells(key, nowMs), `${usesOf30Days(uses)}`))]);
        head = [];
      }

      const all: UsedKey[] = [];
      for (let before: number | undefined = LAST_ROW; before !== undefined; ) {
        const page: readonly PlacedKey[] = orFail(await store.admin.page(filter, nowMs, before, PAGE_ROWS));
        const uses = values.json || isSorted ? await usesOf(store, page) : NO_USES;
        const keys = page.map((key) => ({ key, uses: uses.get(key.id) }));
        if (isSorted) all.push(...keys);
        else await write(keys);
        before = page.length < PAGE_ROWS ? undefined : page.at(-1)?.row;
      }
      if (isSorted) await write(all.sort((a, b) => usesOf30Days(b.uses) - usesOf30Days(a.uses)));
    });
  },
};

interface UsedKey {
  readonly key: PlacedKey;
  readonly uses: Uses | undefined;
}

const NO_USES: ReadonlyMap<string, Uses> = new Map();
