// `bun tests/lab/bench/micro.ts`: what each step of one call costs, in this process, without a network.

import { createService } from '../../../src/app.ts';
import { Call } from '../../../src/calls/call.ts';
import { createRecheck } from '../../../src/calls/proof.ts';
import { createRun } from '../../../src/calls/run.ts';
import { parseConfig } from '../../../src/config/config.ts';
import { isPromise } from '../../../src/ground/result.ts';
import { systemClock, systemRandom } from '../../../src/ground/runtime.ts';
import { hashKey } from '../../../src/keys/record.ts';
import { toolResultFields } from '../../../src/mcp/results.ts';
import type { ToolDeps } from '../../../src/tools/folder/tool-file.ts';
import { getData } from '../../../src/tools/get-data.ts';
import { createTools } from '../../../src/tools/server-tools.ts';
import { createLog } from '../../../src/watch/log.ts';
import { RequestContext, readCredentials } from '../../../src/web/context.ts';
import { createResponseHeaders, UNCACHED_JSON_HEADERS } from '../../../src/web/headers.ts';
import { buildDatabase } from './database.ts';
import { getDataLoads, type Load } from './loads.ts';
import { ourEnv } from './ours.ts';
import { machineLine, markdown } from './report.ts';

const BATCHES = 100;
const CALLS_PER_BATCH = 2000;
const ORIGIN = 'http://127.0.0.1:3000';

const { path, keys } = await buildDatabase(10);
const [key = ''] = keys;
const config = parseConfig(ourEnv(path));
if (!config.ok) throw new Error(config.error.join('\n'));
const clock = systemClock;
const log = createLog({ level: config.value.logLevel, clock, write: async () => {} });
let deps: ToolDeps | undefined;
const service = await createService(config.value, {
  clock,
  random: systemRandom,
  sha256: Bun.SHA256.hash,
  log,
  publicUrl: ORIGIN,
  tools: (given) => {
    deps = given;
    return createTools(given);
  },
});
if (deps === undefined) throw new Error('the service made no tools');
const { guards } = deps;
const tool = getData(deps);

const peer = { address: () => '127.0.0.1', holdOpen() {} };
const requestOf = ({ path: requestPath, headers, body }: Load) =>
  new Request(ORIGIN + requestPath, { method: 'POST', headers: { ...headers, Host: '127.0.0.1:3000' }, body });
const loads = getDataLoads(key);

const nothing = () => {};
const server = { trustProxy: 0, production: false, ownTls: false, address: { urlUnder: () => ORIGIN } };
const context = new RequestContext(
  { ...server, newRequestId: () => 'r-1', begun: nothing, over: nothing },
  peer,
  requestOf(loads.REST),
);
const newCall = () => new Call(context, { xApiKey: key, bearer: null, metaApiKey: null });
await service.app.fetch(requestOf(loads.REST), peer); // from now on the key is known
const recheck = createRecheck(service.keyDomain.feed, log);
const { run } = createRun({ clock, log, recheck });
const response = await run(tool, {}, newCall());
const call = newCall();
const responseHeaders = createResponseHeaders(UNCACHED_JSON_HEADERS);
await guards.apiKey(call);
const { headers } = requestOf(loads.REST);
const fields = { requestId: 'r-1', keyId: '0'.repeat(32), userId: 'user-0' };

const STEPS: Record<string, () => unknown> = {
  'read credentials': () => readCredentials(headers),
  'hash a key': () => hashKey(Bun.SHA256.hash, key),
  'verify a known key (cache hit)': () => service.keyDomain.verifier.verify(key, call.caller),
  'key guard with rate limit': () => guards.apiKey(newCall()),
  'run a tool: guards, input, run, output': () => run(tool, {}, newCall()),
  "encode a tool's result for MCP": () => toolResultFields(response),
  'headers of a response': () => responseHeaders(call.response.limits),
  'make a Response': () => new Response('{}', { headers: responseHeaders(call.response.limits) }),
  'log line': () => log.info('API key authentication successful', fields),
};
for (const [name, load] of Object.entries(loads)) {
  STEPS[`make a Request and read it, ${name}`] = () => requestOf(load).json();
  STEPS[`the same and response it, ${name}`] = () => service.app.fetch(requestOf(load), peer);
}

/** Nanoseconds per call in the quickest batch, the least disturbed one. */
async function quickest(step: () => unknown): Promise<number> {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const startedAtMs = performance.now();
    for (let count = 0; count < CALLS_PER_BATCH; count += 1) {
      const result = step();
      if (isPromise(result)) await result;
    }
    bestMs = Math.min(bestMs, performance.now() - startedAtMs);
    await log.flush();
    await new Promise((resolve) => setImmediate(resolve)); // or the change feed never gets to poll
  }
  return (bestMs / CALLS_PER_BATCH) * 1e6;
}

const rows: string[][] = [];
for (const [name, step] of Object.entries(STEPS)) rows.push([name, (await quickest(step)).toFixed(0)]);
process.stdout.write(`${machineLine()}\n\n${markdown(['Step', 'ns'], rows)}\n`);
await service.close();
