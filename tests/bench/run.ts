// `bun run bench [--quick]`: measures this server against bare ones and the SDK's, on the machine it runs on.
// The exit code says whether everything could be measured, not whether every target was met: that depends on the machine.

import { FULL, QUICK } from './plan.ts';
import { type Findings, machineLine, planLine, type Section, table, verdict } from './report.ts';
import { bigDatabase } from './sections/big-database.ts';
import { counters } from './sections/counters.ts';
import { creating } from './sections/creating.ts';
import { flood } from './sections/flood.ts';
import { hotPath } from './sections/hot-path.ts';
import { keysInUse } from './sections/keys-in-use.ts';
import { listing } from './sections/listing.ts';
import { memory } from './sections/memory.ts';
import { newcomers } from './sections/newcomers.ts';
import { starting } from './sections/starting.ts';
import { isWrkThere } from './wrk.ts';

const QUICK_SECTIONS: Readonly<Record<string, Section>> = {
  'the hot path': hotPath,
  listing,
  'keys in use': keysInUse,
  floods: flood,
  newcomers,
  creating,
  starting,
  counters,
};
const SLOW_SECTIONS: Readonly<Record<string, Section>> = { 'a big database': bigDatabase, memory };

async function run(args: readonly string[]): Promise<number> {
  if (args.some((arg) => arg !== '--quick')) return fail('usage: bun run bench [--quick]');
  if (!isWrkThere()) return fail('wrk is missing: `apt install wrk` or `brew install wrk`');
  const plan = args.includes('--quick') ? QUICK : FULL;
  const sections = plan.full ? { ...QUICK_SECTIONS, ...SLOW_SECTIONS } : QUICK_SECTIONS;
  const machine = machineLine();
  const found: Findings[] = [];
  const failures: string[] = [];
  for (const [name, section] of Object.entries(sections)) {
    process.stderr.write(`measuring ${name} …\n`);
    try {
      found.push(await section(plan));
    } catch (error) {
      failures.push(`could not measure ${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  const lines = [
    machine,
    planLine(plan),
    '',
    table(found.flatMap(({ rows }) => rows)),
    '',
    verdict(found.flatMap(({ targets }) => targets)),
    '',
    ...(plan.full ? [] : [`Not in a quick run: ${Object.keys(SLOW_SECTIONS).join(', ')}.`]),
    ...failures,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  return failures.length === 0 ? 0 : 1;
}

function fail(line: string): number {
  process.stderr.write(`${line}\n`);
  return 1;
}

process.on('SIGINT', () => process.exit(130)); // so that what was started ends as well
process.exit(await run(process.argv.slice(2)));
