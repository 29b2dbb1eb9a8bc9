// `bun run soak [--seconds 1800]`: soak.ts with a line for each window, exit code 1 if something is not flat.

import { parseArgs } from 'node:util';
import { findings, p99SlackMs, soak } from './soak.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '1800' } } });
const seconds = Number(values.seconds);
if (!(seconds > 0)) throw new Error('usage: bun run soak [--seconds <n>]');

console.log(
  '| until s | answered | errors | p50 ms | p99 ms | resident MB | open files |\n|---|---|---|---|---|---|---|',
);
/** Many, so that a few disturbed ones move no median, but each long enough for a p99. */
const WINDOWS_MAX = 30;
const WINDOW_S_MIN = 10;
const count = Math.max(4, Math.min(WINDOWS_MAX, Math.floor(seconds / WINDOW_S_MIN)));
const windows = await soak({
  seconds,
  windows: count,
  onWindow(window, index) {
    const { answered, errors, p50Ms, p99Ms, residentMb, openFiles } = window;
    const untilS = Math.round((seconds / count) * (index + 1));
    const figures = [untilS, answered, errors.length, p50Ms.toFixed(1), p99Ms.toFixed(1)];
    console.log(`| ${[...figures, residentMb.toFixed(0), openFiles].join(' | ')} |`);
  },
});
const found = findings(windows, p99SlackMs(seconds / count));
console.log(found.length === 0 ? '\nflat, without errors' : `\n${found.join('\n')}`);
process.exit(found.length === 0 ? 0 : 1);
