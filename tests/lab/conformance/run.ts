// Runs the official conformance suite against the fixture server, once for each requirement set and once for an older
// revision. Exits with 1 when a scenario fails that is not in the run's expected-failures file, or one in it passes.

import { join } from 'node:path';
import { createTestApp } from '../../support/test-app.ts';
import { fixturePrompts, fixtureResources, fixtureTools } from './fixture.ts';

const SUITE = join(import.meta.dir, '../../../node_modules/@modelcontextprotocol/conformance/dist/index.js');
const RUNS = [
  ['--requirements', '2025-11-25'],
  ['--requirements', '2026-07-28'],
  ['--spec-version', '2025-06-18'],
];

async function run(url: string, args: readonly string[]): Promise<number> {
  console.log(`\nconformance ${args.join(' ')}`);
  const expected = join(import.meta.dir, `expected-failures-${args[1]}.yml`);
  const suite = Bun.spawn([process.execPath, SUITE, 'server', '--url', url, '--expected-failures', expected, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return suite.exited;
}

await using app = await createTestApp({
  tools: () => fixtureTools,
  prompts: () => fixturePrompts,
  resources: fixtureResources,
});
// By name: the suite's check against DNS rebinding needs one.
const url = `${app.url.replace('127.0.0.1', 'localhost')}/mcp`;
const codes: number[] = [];
for (const args of RUNS) codes.push(await run(url, args));
process.exitCode = codes.some((code) => code !== 0) ? 1 : 0;
