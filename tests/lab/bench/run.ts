// `bun run bench [--quick] [--profile | section …]`: measures this server against bare ones and the SDK's, on this machine. The
// exit code says whether everything could be measured, not whether every target was met: that depends on the machine.

import { FULL, QUICK } from './plan.ts';
import { isPerfThere, profileTable } from './profile.ts';
import { type Findings, LEGEND, machineLine, planLine, type Section, table, verdict } from './report.ts';
import { flood } from './sections/flood.ts';
import { garbage } from './sections/garbage.ts';
import { hotPath } from './sections/hot-path.ts';
import { memory } from './sections/memory.ts';
import { rules } from './sections/rules.ts';
import { starting } from './sections/starting.ts';
import { steps } from './sections/steps.ts';
import { traces } from './sections/traces.ts';
import { isWrkThere } from './wrk.ts';

const SECTIONS = new Map<string, Section>([
  ['hot-path', hotPath],
  ['steps', steps],
  ['garbage', garbage],
  ['flood', flood],
  ['starting', starting],
  ['rules', rules],
  ['traces', traces],
  ['memory', memory],
]);
/** Only in a full run, or when named: they can't be made short. */
const SLOW: readonly string[] = ['memory'];

const USAGE = `usage: bun run bench [--quick] [--profile | ${[...SECTIONS.keys()].join(' | ')} …]`;

async function run(args: readonly string[]): Promise<number> {
  const quick = args.includes('--quick');
  const profiles = args.includes('--profile');
  const named = args.filter((arg) => arg !== '--quick' && arg !== '--profile');
  if (!named.every((name) => SECTIONS.has(name)) || (profiles && named.length > 0)) return fail(USAGE);
  if (!isWrkThere()) return fail('wrk is missing: `apt install wrk` or `brew install wrk`');
  const plan = quick ? QUICK : FULL;
  const isChosen = (name: string) => (named.length > 0 ? named.includes(name) : !quick || !SLOW.includes(name));
  const machine = machineLine();
  if (profiles) {
    if (!isPerfThere()) return fail('perf is missing: `apt install linux-perf`');
    process.stdout.write(`${machine}\n\n${await profileTable(plan)}\n`);
    return 0;
  }
  const found: Findings[] = [];
  const left: string[] = [];
  const failures: string[] = [];
  for (const [name, section] of SECTIONS) {
    if (!isChosen(name)) {
      left.push(name);
      continue;
    }
    process.stderr.write(`measuring ${name} …\n`);
    try {
      found.push(await section(plan));
    } catch (error) {
      failures.push(`Could not measure ${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  const rows = found.flatMap((findings) => findings.rows);
  const targets = found.flatMap((findings) => findings.targets);
  const paragraphs = [
    `${machine}\n${planLine(plan)}`,
    ...(rows.length > 0 ? [table(rows), LEGEND] : []),
    ...found.flatMap(({ tables = [] }) => tables),
    ...(targets.length > 0 ? [verdict(targets)] : []),
    ...(left.length > 0 ? [`Not measured in this run: ${left.join(', ')}.`] : []),
    ...failures,
  ];
  process.stdout.write(`${paragraphs.join('\n\n')}\n`);
  return failures.length === 0 ? 0 : 1;
}

function fail(line: string): number {
  process.stderr.write(`${line}\n`);
  return 1;
}

// What was started ends as well.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));
process.exit(await run(process.argv.slice(2)));
