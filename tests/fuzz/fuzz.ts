// The fuzzer: a real server in a process of its own, inputs made from a seed, and everything watched that must hold:
// its answers, its log, its streams, its life, its memory.

import { readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import fc from 'fast-check';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { type Bait, makeBait, USERS } from './bait.ts';
import { type Input, inputs } from './inputs.ts';
import { eventsFault, faultOf, logFault } from './invariants.ts';
import { openStreams } from './streams.ts';
import { createWire, type Outcome, type Wire } from './wire.ts';

export interface FuzzOptions {
  readonly seed: number;
  /** Inputs at least, unless the time is up before. */
  readonly inputs: number;
  readonly seconds: number;
  /** Called now and then. */
  readonly onProgress?: (figures: Figures) => void;
}

export interface Figures {
  inputs: number;
  /** Answers by status. */
  readonly statuses: Map<number, number>;
  /** Connections that the server closed without an answer: to bytes that are no HTTP. */
  closed: number;
  logLines: number;
  /** Resident memory of the server in MB, now and then. */
  readonly rssMb: number[];
  /** The longest that GET /mcp/health took, in milliseconds. */
  healthMsMax: number;
  seconds: number;
}

const CONNECTIONS = 16;
/** Inputs under way together, as one case of fast-check: a failing case shrinks to few of them, or one. */
const TOGETHER_MAX = 500;
const CASES_PER_ROUND = 12;
const PRIORITY_LOW = 10;
const HEALTH_MS_MAX = 10_000;

/** Throws with the seed and the smallest input found when something does not hold. */
export async function fuzz({ seed, inputs: wanted, seconds, onProgress }: FuzzOptions): Promise<Figures> {
  const startedAtMs = performance.now();
  const elapsedS = () => (performance.now() - startedAtMs) / 1000;
  const figures: Figures = {
    inputs: 0,
    statuses: new Map(),
    closed: 0,
    logLines: 0,
    rssMb: [],
    healthMsMax: 0,
    seconds: 0,
  };
  const logged = lineReader();
  await using server = await startServer({
    env: { JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', RATE_LIMIT_REQUESTS: '1000000000' },
    onStdout: logged.take,
  });
  setPriority(server.pid, PRIORITY_LOW); // other tests that run beside this one have clocks to keep
  const bait = await makeBait(server.url);
  const streams = await openStreams(server.url, bait.tokens.slice(0, 4));
  const wires = Array.from({ length: CONNECTIONS }, () => createWire(server.url));
  let tidied = 0;

  /** Puts the inputs on all connections at once; returns what did not hold. */
  async function putAll(together: readonly Input[]): Promise<string[]> {
    const left = [...together];
    const faults: string[] = [];
    const work = async (wire: Wire) => {
      for (let input = left.pop(); input !== undefined; input = left.pop()) {
        const outcome = await wire.put(input);
        count(figures, outcome);
        const fault = faultOf(input, outcome, bait);
        if (fault !== null) faults.push([fault, input, outcome].map((part) => JSON.stringify(part)).join('\n'));
      }
    };
    await Promise.all(wires.map(work));
    return faults;
  }

  const property = fc.asyncProperty(
    fc.array(inputs(bait, streams.paths), { minLength: 1, maxLength: TOGETHER_MAX, size: 'max' }),
    async (together) => {
      const [fault] = await putAll(together);
      if (fault !== undefined) throw new Error(fault);
    },
  );

  try {
    for (let round = 0; figures.inputs < wanted && elapsedS() < seconds; round += 1) {
      await fc.assert(property, {
        seed: seed + round,
        numRuns: CASES_PER_ROUND,
        interruptAfterTimeLimit: Math.max(1, seconds - elapsedS()) * 1000,
      });
      for (const line of logged.lines()) {
        figures.logLines += 1;
        const fault = logFault(line, bait);
        if (fault !== null) throw new Error(`seed ${seed + round}: ${fault}`);
      }
      const streamed = eventsFault(streams.received(), bait);
      if (streamed !== null) throw new Error(`seed ${seed + round}: on a stream: ${streamed}`);
      figures.healthMsMax = Math.max(figures.healthMsMax, await healthMs(server));
      figures.rssMb.push(rssMb(server));
      figures.seconds = elapsedS();
      if (figures.inputs - tidied > 20_000) {
        tidied = figures.inputs;
        await tidy(server.url, bait);
        onProgress?.(figures);
      }
    }
  } finally {
    for (const wire of wires) wire.close();
    streams.close();
  }
  if (server.stderr().split('\n').length > STDERR_LINES) throw new Error(`on stderr: ${server.stderr()}`);
  const code = await server.stop();
  if (code !== 0) throw new Error(`the server ended with ${code}`);
  return figures;
}

function count(figures: Figures, { answers, ended }: Outcome): void {
  figures.inputs += 1;
  if (ended === 'closed') figures.closed += 1;
  for (const { status } of answers) figures.statuses.set(status, (figures.statuses.get(status) ?? 0) + 1);
}

/** The banner, and nothing after it. */
const STDERR_LINES = 5;

async function healthMs({ url }: ServerProcess): Promise<number> {
  const startedAtMs = performance.now();
  const response = await fetch(`${url}/mcp/health`, { signal: AbortSignal.timeout(HEALTH_MS_MAX) });
  await response.text();
  if (response.status !== 200) throw new Error(`health answered ${response.status}`);
  return performance.now() - startedAtMs;
}

const rssMb = ({ pid }: ServerProcess): number =>
  Math.round(Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);

/** Deletes the keys that were made on the way: of 1,000 keys a list is long, and it is not lists that are tested. */
async function tidy(url: string, { tokens, keyIds }: Bait): Promise<void> {
  for (const token of tokens.slice(0, USERS)) {
    const call = async (tool: string, input: object) => {
      const response = await fetch(`${url}/tools/${tool}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(input),
      });
      return (await response.json()) as { keys?: { id: string }[] };
    };
    const { keys = [] } = await call('list_api_keys', {});
    for (const { id } of keys) if (!keyIds.includes(id)) await call('delete_api_key', { keyId: id });
  }
}

/** Whole lines out of chunks. */
function lineReader() {
  let text = '';
  return {
    take(chunk: string) {
      text += chunk;
    },
    lines(): string[] {
      const end = text.lastIndexOf('\n');
      const lines = text.slice(0, Math.max(0, end)).split('\n').filter(Boolean);
      text = text.slice(end + 1);
      return lines;
    },
  };
}
