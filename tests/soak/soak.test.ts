// The soak in its short form; `bun run soak` is the long one.

import { describe, expect, test } from 'bun:test';
import { findings, soak, type Window } from './soak.ts';

const SECONDS = 10;
/** In windows of 2 s one other program at work shows. */
const SLACK_MS = 500;

test(`${SECONDS} s of mixed load: no errors; memory, files and p99 stay flat`, async () => {
  const windows = await soak({ seconds: SECONDS, windows: 5 });
  expect(findings(windows, SLACK_MS)).toEqual([]);
  expect(windows.every(({ answered }) => answered > 0)).toBe(true);
}, 60_000);

describe('what is found', () => {
  const flat: Window = { answered: 1, errors: [], p50Ms: 1, p99Ms: 5, residentMb: 60, openFiles: 100 };
  const ending = (last: Partial<Window>) =>
    findings([flat, flat, flat, flat, flat, { ...flat, ...last }, { ...flat, ...last }]);

  test('nothing in what is flat, whatever the first window was like', () => {
    expect(findings([{ ...flat, p99Ms: 500, residentMb: 500 }, flat, flat, flat, flat])).toEqual([]);
  });

  test('errors, memory, files and latencies that grow', () => {
    expect(ending({ errors: ['x'] })).toEqual(['2 errors, of which the first: x']);
    expect(ending({ residentMb: 105 })).toEqual(['resident memory (MB) went from 60.0 to 105.0']);
    expect(ending({ openFiles: 133 })).toEqual(['open files went from 100.0 to 133.0']);
    expect(ending({ p99Ms: 28 })).toEqual(['p99 (ms) went from 5.0 to 28.0']);
  });
});
