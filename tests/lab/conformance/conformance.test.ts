// The MCP conformance suite, as `bun run conformance` runs it.

import { expect, test } from 'bun:test';
import { join } from 'node:path';

test('the conformance suite passes at every revision it knows, except for what does not apply', async () => {
  const suite = Bun.spawn([process.execPath, join(import.meta.dir, 'run.ts')], { stdout: 'pipe', stderr: 'pipe' });
  const [stdout, code] = await Promise.all([new Response(suite.stdout).text(), suite.exited]);
  const unexpected = stdout.split('\n').filter((line) => /^\s+[✗✓] .*|FAILURE|stale|Unexpected/.test(line));
  expect({ code, unexpected: code === 0 ? [] : unexpected }).toEqual({ code: 0, unexpected: [] });
}, 180_000); // on a machine that is ten times slower, too
