// Event streams that nobody reads: on Deno, and with lists of all sizes.

import { test } from 'bun:test';
import { expectLittle } from './honest.ts';
import { folderWithKeys, STREAM_USES, type StreamsReport, unreadLists, unreadStreams } from './unread-streams.ts';

function check(what: string, report: StreamsReport): void {
  const { residentMb, medianMs, calls } = report;
  console.log(`${what}: ${residentMb.toFixed(0)} MB, ${calls} calls, p50 ${medianMs.toFixed(1)} ms`);
  expectLittle(report);
}

test.each(STREAM_USES)('Deno: 500 streams %s', async (use) => {
  check(`Deno, ${use}`, await unreadStreams(use, 500, 'deno'));
});

for (const runtime of ['bun', 'deno'] as const) {
  test(`${runtime}: one stream, and 8 lists of all sizes`, async () => {
    for (const scopeChars of [100, 500, 2000]) {
      const folder = await folderWithKeys(1000, scopeChars);
      check(`${runtime}, 8 lists, scopes of ${scopeChars}`, await unreadLists(folder, 8, runtime));
    }
  });
}
