// `bun tests/lab/compare/run.ts [--checkout <folder> [--since d65035e1]] [--runtime deno] [--store remote] [--env NAME=VALUE …]
// [--seed 1] [--requests 10000]`: this server beside another, byte for byte: of another checkout, which has its packages, on
// another runtime, or on another store. `--env` is a variable of both. `--since`: what expected.ts names is counted, and is no
// fault.

import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Runtime } from '../../support/server-process.ts';
import { STORE_MODES } from '../../support/store-mode.ts';
import { compare, type Kind } from './compare.ts';
import { EXPECTED } from './expected.ts';
import { startBoth } from './servers.ts';

const SHOWN = 800;
const { values } = parseArgs({
  options: {
    checkout: { type: 'string' },
    since: { type: 'string' },
    runtime: { type: 'string', default: 'bun' },
    store: { type: 'string', default: 'embedded' },
    env: { type: 'string', multiple: true, default: [] },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    requests: { type: 'string', default: '10000' },
  },
});
const runtime = (['bun', 'deno'] as const).find((known): known is Runtime => known === values.runtime);
const store = STORE_MODES.find((known) => known === values.store);
if (runtime === undefined || store === undefined)
  throw new Error('--runtime: bun or deno; --store: embedded, remote or replica');
const env = Object.fromEntries(
  values.env.map((text) => [text.split('=', 1)[0] ?? '', text.slice(text.indexOf('=') + 1)]),
);
const other = { runtime, store, ...(values.checkout !== undefined && { root: resolve(values.checkout) }) };

const sum = (group: readonly Kind[]) => group.reduce((total, { count }) => total + count, 0);

await using both = await startBoth(other, env);
console.log(`seed ${values.seed}`);
const plan = { seed: Number(values.seed), requests: Number(values.requests), sameRuntime: runtime === 'bun' };
const { requests, statuses, kinds } = await compare(both.theirs, both.ours, plan);
const changeOf = ({ kind, example: { before, now } }: Kind): string | undefined =>
  values.since && EXPECTED.find(({ looks }) => looks.test([kind, before, now].join('\n')))?.change;
const { expected = [], found = [] } = Object.groupBy(kinds.values(), (one) => (changeOf(one) ? 'expected' : 'found'));
for (const [change, of] of Map.groupBy(expected, changeOf)) console.log(`${sum(of)} × expected: ${change}`);
/** What differs in the same way in several places is printed once. */
const alike = Map.groupBy(found, ({ example: { where, before, now } }) =>
  [where, before, now].join('\n').replace(/\d+/g, '0'),
);
for (const group of [...alike.values()].sort((one, two) => sum(two) - sum(one))) {
  const at = group.map(({ kind, count }) => `${kind} (${count})`).join('; ');
  const { before, now, request } = group[0]?.example ?? {};
  const shown = [at, `other: ${before}`, `this:  ${now}`, `of:    ${JSON.stringify(request)}`];
  console.log(`\n${sum(group)} × ${shown.map((text) => text.slice(0, SHOWN)).join('\n  ')}`);
}
const byStatus = [...statuses].sort(([one], [two]) => one - two).map(([status, count]) => `${status}: ${count}`);
console.log(`\n${requests} requests, ${found.length} kinds of differences; responses ${byStatus.join('  ')}`);
process.exitCode = found.length === 0 ? 0 : 1;
