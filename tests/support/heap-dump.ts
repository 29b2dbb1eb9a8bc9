// Loaded into a server on Bun before its own code: on SIGUSR2 it collects garbage and writes what is left, with all texts, to
// the file that HEAP_DUMP names.

import { renameSync, writeFileSync } from 'node:fs';

const { HEAP_DUMP: file = '' } = process.env;

process.on('SIGUSR2', () => {
  Bun.gc(true);
  writeFileSync(`${file}.part`, Bun.generateHeapSnapshot('v8'));
  renameSync(`${file}.part`, file);
});
