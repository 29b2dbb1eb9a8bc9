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
    await withStore(env, async (store, { keyQuota }) => {
      const { heads: names, cells } = values.wide ? WIDE : NARROW;
      const isSorted = values.sort !== undefined;
      /** With the uses, for which 80 columns have room in the place of the last one. */
      const withUses = (cells: readonly string[], uses: string) => [
        ...(values.wide ? cells : cells.slice(0, -1)),
        uses,
      ];
      let heads = [isSorted ? withUses(names, 'USES') : names];

      async function write(keys: readonly PlacedKey[], uses: ReadonlyMap<string, Uses>): Promise<void> {
        if (values.json) return writeJson(keys.map((key) => keyObject(key, { uses: uses.get(key.id), keyQuota })));
        const row = (key: PlacedKey) => {
          const shown = cells(key, nowMs);
          return isSorted ? withUses(shown, `${usesOf30Days(uses.get(key.id))}`) : shown;
        };
        await writeTable([...heads, ...keys.map(row)]);
        heads = [];
      }

      const all: PlacedKey[] = [];
      const usesOfAll = new Map<string, Uses>();
      for (let before = LAST_ROW; ; ) {
        const page = orFail(await store.admin.page(filter, nowMs, before, PAGE_ROWS));
        const uses = values.json || isSorted ? await usesOf(store, page) : NO_USES;
        if (isSorted) {
          all.push(...page);
          for (const [id, used] of uses) usesOfAll.set(id, used);
        } else await write(page, uses);
        const last = page.at(-1);
        if (last === undefined || page.length < PAGE_ROWS) break;
        before = last.row;
      }
      if (!isSorted) return;
      const count = ({ id }: PlacedKey) => usesOf30Days(usesOfAll.get(id));
      await write(
        all.sort((a, b) => count(b) - count(a)),
        usesOfAll,
      );
    });
  },
};

const NO_USES: ReadonlyMap<string, Uses> = new Map();
