// Event streams that nobody reads take little memory and nobody's time. On Deno, and with lists of all sizes, in
// unread-streams.long.ts.

import { expect, test } from 'bun:test';
import { folderWithKeys, STREAM_USES, unreadLists, unreadStreams } from './unread-streams.ts';

/** At any moment, the server itself and the garbage between two collections included. */
const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;
const isLinux = process.platform === 'linux';

test.skipIf(!isLinux).each(STREAM_USES)(
  '500 streams %s',
  async (use) => {
    const { residentMb, medianMs } = await unreadStreams(use, { streams: 500, runtime: 'bun' });
    expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
  180_000,
);

test.skipIf(!isLinux)(
  'one stream, and 8 of the largest lists',
  async () => {
    const { residentMb, medianMs, read } = await unreadLists(await folderWithKeys(1000, 2000), 8, 'bun');
    expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
    expect(read).toContain('"nextCursor"');
  },
  180_000,
);
