// Shows on a terminal how far the tests are: files done of all, tests passed, and the slow ones by name. In a pipe it only
// shows what fails.

import type { Counts, Observer } from './reader.ts';

/** A test that takes longer is named. */
const SLOW_S = 10;
const ERASE_LINE = '\r\x1b[K';

export interface Progress extends Observer {
  /** Removes the status line. */
  end(): void;
}

/** `files`: how many there are, or null where arguments choose them. */
export function createProgress(counts: Counts, files: number | null): Progress {
  const { isTTY = false, columns = 80 } = process.stderr;
  const startedMs = performance.now();
  let done = 0;

  function show(line: string): void {
    process.stderr.write(isTTY ? `${ERASE_LINE}${line}\n` : `${line}\n`);
    showStatus();
  }
  function showStatus(): void {
    if (!isTTY) return;
    const seconds = Math.round((performance.now() - startedMs) / 1000);
    const of = files === null ? '' : ` of ${files}`;
    const status = `${done}${of} files, ${counts.pass} passed, ${counts.fail} failed, ${seconds} s`;
    process.stderr.write(ERASE_LINE + status.slice(0, columns - 1));
  }

  return {
    onFile() {
      done += 1;
      showStatus();
    },
    onTest(file, name, seconds) {
      if (isTTY && seconds >= SLOW_S) show(`slow: ${seconds.toFixed(1)} s  ${file}: ${name}`);
    },
    onLine: show,
    end() {
      if (isTTY) process.stderr.write(ERASE_LINE);
    },
  };
}
