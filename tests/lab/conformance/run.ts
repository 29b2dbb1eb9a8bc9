// Runs the official conformance suite against the fixture server, once for each requirement set and once for an older
// revision, and its scenarios for authorization servers. Exits with 1 when a scenario fails that is not in the run's
// expected-failures file, or one in it passes.

import { join } from 'node:path';
import { serveDocuments, trustAll } from '../../support/client-documents.ts';
import { handOver } from '../../support/hand-over.ts';
import { freePorts } from '../../support/sqld.ts';
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

/** The client's id is the URL of a document, which the metadata must say is taken. */
async function runAuthorization(): Promise<number> {
  console.log('\nconformance authorization');
  const distrust = trustAll();
  await using vendor = serveDocuments();
  const id = `${vendor.origin}/client.json`;
  const document = { client_id: id, redirect_uris: ['http://127.0.0.1/callback'] };
  vendor.documents.set('/client.json', () => Response.json(document));
  await using app = await createTestApp({ env: { OAUTH_CLIENTS: id } });
  const { key } = await app.createKey('alice');
  const [port] = freePorts(1);
  const args = ['--url', app.url, '--client-id', id, '--port', String(port), '--resource', `${app.url}/mcp`];
  const suite = Bun.spawn([process.execPath, SUITE, 'authorization', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  let isAnswered = false;
  for await (const chunk of suite.stdout.pipeThrough(new TextDecoderStream())) {
    process.stdout.write(chunk);
    said += chunk;
    const page = /^http\S+\/authorize\?\S+$/m.exec(said)?.[0];
    if (page === undefined || isAnswered) continue;
    isAnswered = true;
    const { headers } = await handOver(new URL(page), { key });
    await fetch(headers.get('location') ?? '');
  }
  distrust();
  return (await suite.exited) === 0 && said.includes('Total: 3 passed, 0 failed') ? 0 : 1;
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
codes.push(await runAuthorization());
process.exitCode = codes.some((code) => code !== 0) ? 1 : 0;
