// The soak in its short form; `bun run soak` is the long one.

import { describe, expect, test } from 'bun:test';
import { findings, p99SlackMs, soak, type Window } from './soak.ts';

const SECONDS = 10;
const WINDOWS = 5;
/** As in the long form. */
const SLACK_MS = p99SlackMs(60);

test(`${SECONDS} s of mixed load: no errors; memory, files and p99 stay flat`, async () => {
  const windows = await soak({ seconds: SECONDS, windows: WINDOWS });
  expect(findings(windows, p99SlackMs(SECONDS / WINDOWS))).toEqual([]);
}, 180_000);

describe('what is found', () => {
  const flat: Window = { answered: 1, errors: [], p50Ms: 1, p99Ms: 5, residentMb: 60, openFiles: 100 };
  const ending = (last: Partial<Window>) =>
    findings([flat, flat, flat, flat, flat, { ...flat, ...last }, { ...flat, ...last }], SLACK_MS);

  test('flat windows give no finding, whatever the first one was like', () => {
    expect(findings([{ ...flat, p99Ms: 500, residentMb: 500 }, flat, flat, flat, flat], SLACK_MS)).toEqual([]);
  });

  test('one disturbed window of several gives no finding', () => {
    const disturbed = { ...flat, p99Ms: 500, residentMb: 500, openFiles: 500 };
    expect(findings([flat, flat, flat, flat, flat, flat, flat, disturbed, flat, flat], SLACK_MS)).toEqual([]);
  });

  test('errors, silence, and growing memory, files and latencies are found', () => {
    expect(ending({ errors: ['x'] })).toEqual(['2 errors, of which the first: x']);
    expect(ending({ answered: 0 })).toEqual(['nothing was answered in 2 of 7 windows']);
    expect(ending({ residentMb: 105 })).toEqual(['resident memory (MB) went from 60.0 to 105.0']);
    expect(ending({ openFiles: 133 })).toEqual(['open files went from 100.0 to 133.0']);
    expect(ending({ p99Ms: 28 })).toEqual(['p99 (ms) went from 5.0 to 28.0']);
  });
});
