// `keys list`: the keys of all owners, newest first.

import { LAST_ROW } from '../../keys/admin.ts';
import { argumentsOf } from './arguments.ts';
import { orFail, withStore } from './database.ts';
import { filterOf, LIST_OPTIONS } from './filter.ts';
import { keyObject, NARROW, WIDE } from './shown-key.ts';
import { writeJson, writeTable } from './terminal.ts';
import type { Verb } from './verb.ts';

const PAGE_ROWS = 500;

export const verb: Verb = {
  usage: '[--user OWNER] [--scope S] [--created-after T] [--unused-for 90d] [--expires-within 14d] [--wide | --json]',
  summary:
    'Lists keys, newest first, in 80 columns unless --wide. The last two filters leave out keys that are revoked or expired.',
  async run(args, env) {
    const { values } = argumentsOf(
      args,
      { ...LIST_OPTIONS, wide: { type: 'boolean' }, json: { type: 'boolean' } },
      verb,
    );
    const nowMs = Date.now();
    const filter = filterOf(values, nowMs);
    await withStore(env, async ({ admin }) => {
      const { heads: names, cells } = values.wide ? WIDE : NARROW;
      let heads = [names];
      for (let before = LAST_ROW; ; ) {
        const page = orFail(await admin.page(filter, nowMs, before, PAGE_ROWS));
        if (values.json) await writeJson(page.map(keyObject));
        else await writeTable([...heads, ...page.map((key) => cells(key, nowMs))]);
        heads = [];
        const last = page.at(-1);
        if (last === undefined || page.length < PAGE_ROWS) return;
        before = last.row;
      }
    });
  },
};
