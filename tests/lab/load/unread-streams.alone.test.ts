// Event streams that nobody reads take little memory and nobody's time. On Deno, and with lists of all sizes, in
// unread-streams.long.ts.

import { expect, test } from 'bun:test';
import { expectLittle } from './honest.ts';
import { folderWithKeys, STREAM_USES, unreadLists, unreadStreams } from './unread-streams.ts';

const isLinux = process.platform === 'linux';

test.skipIf(!isLinux).each(STREAM_USES)(
  '500 streams %s',
  async (use) => {
    expectLittle(await unreadStreams(use, 500, 'bun'));
  },
  180_000,
);

test.skipIf(!isLinux)(
  'one stream, and 8 of the largest lists',
  async () => {
    const report = await unreadLists(await folderWithKeys(1000, 2000), 8, 'bun');
    expectLittle(report);
    expect(report.read).toContain('"nextCursor"');
  },
  180_000,
);
