// Event streams that nobody reads take little memory and nobody's time. On Deno, and with lists of all sizes, in
// unread-streams.long.ts.

import { expect, test } from 'bun:test';
import { folderWithKeys, STREAM_USES, unreadLists, unreadStreams } from './unread-streams.ts';

/** What clients that don't read may hold, the server itself included. */
const HELD_MB_MAX = 256;
/** At any moment, with the garbage between two collections: a server in 512 MB survives it. */
const PEAK_MB_MAX = 384;
const MEDIAN_MS_MAX = 100;
const isLinux = process.platform === 'linux';

test.skipIf(!isLinux).each(STREAM_USES)(
  '500 streams %s',
  async (use) => {
    const { residentMb, heldMb, medianMs } = await unreadStreams(use, { streams: 500, runtime: 'bun' });
    expect(heldMb).toBeLessThan(HELD_MB_MAX);
    expect(residentMb).toBeLessThan(PEAK_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
  180_000,
);

test.skipIf(!isLinux)(
  'one stream, and 8 lists that are larger than an event may be',
  async () => {
    const { residentMb, heldMb, medianMs, read } = await unreadLists(await folderWithKeys(1000, 2000), 8, 'bun');
    expect(heldMb).toBeLessThan(HELD_MB_MAX);
    expect(residentMb).toBeLessThan(PEAK_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
    expect(read.match(/The result is too large for this transport; use \/mcp/g)).toHaveLength(8);
  },
  180_000,
);
