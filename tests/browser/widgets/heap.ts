// What a window still holds in memory.

import type { CDPSession } from 'playwright-core';

/** True when a live string in the window's heap contains `text`. */
export async function isInMemory(session: CDPSession, text: string): Promise<boolean> {
  const chunks: string[] = [];
  const collect = ({ chunk }: { chunk: string }) => chunks.push(chunk);
  session.on('HeapProfiler.addHeapSnapshotChunk', collect);
  await session.send('HeapProfiler.collectGarbage');
  await session.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  session.off('HeapProfiler.addHeapSnapshotChunk', collect);
  return chunks.join('').includes(text);
}
