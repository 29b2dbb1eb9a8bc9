// Temporary folders, removed when the process ends.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];
process.on('exit', removeTemporaryFolders);

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-key-server-'));
  made.push(folder);
  return folder;
}

export function removeTemporaryFolders(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}
