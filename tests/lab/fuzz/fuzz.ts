// The fuzzer: a real server in a process of its own, inputs made from a seed, and a watch on everything that must hold:
// its responses, log, streams, life and memory.

import { setPriority } from 'node:os';
import fc from 'fast-check';
import { residentMbOf } from '../../support/server-process.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type Input, inputs } from './inputs.ts';
import { eventsFault, faultOf, logFault } from './invariants.ts';
import { callAs, type PlantedSecrets, plantSecrets, USERS, useKey } from './planted-secrets.ts';
import { SETTINGS, type SettingName, type Target } from './settings.ts';
import { openStreams } from './streams.ts';
import { VICTIM } from './tokens.ts';
import { createWire, type Outcome, type Wire } from './wire.ts';

export interface FuzzOptions {
  readonly setting: SettingName;
  readonly seed: number;
  /** The fewest inputs to send, unless time runs out before. */
  readonly inputs: number;
  readonly seconds: number;
  /** Goes on until this holds, of the responses by status. Which inputs meet a busy server differs each time. */
  readonly until?: (statuses: ReadonlyMap<number, number>) => boolean;
  /** Called now and then. */
  readonly onProgress?: (figures: Figures) => void;
}

export interface Figures {
  inputs: number;
  /** Responses by status. */
  readonly statuses: Map<number, number>;
  /** Connections that the server closed without a response: to bytes that are no HTTP. */
  closed: number;
  logLines: number;
  /** Resident memory of the server in MB, now and then. */
  readonly rssMb: number[];
  /** The longest that GET /mcp/health took, in milliseconds. */
  healthMsMax: number;
  seconds: number;
}

const CONNECTIONS = 16;
/** Inputs under way together, as one case of fast-check: a failing case shrinks to a few of them, or to one. */
const TOGETHER_MAX = 500;
const CASES_PER_ROUND = 4;
const PRIORITY_LOW = 10;
const HEALTH_MS_MAX = 10_000;

/** Throws with the seed and the smallest input found when something does not hold. */
export async function fuzz(options: FuzzOptions): Promise<Figures> {
  const { setting, seed, inputs: wanted, seconds, until = () => true, onProgress } = options;
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
  await using target = await SETTINGS[setting].start(logged.take);
  const { server } = target;
  setPriority(server.pid, PRIORITY_LOW); // other tests that run beside this one have clocks to keep
  const planted = await plantSecrets(target);
  const streams = await openStreams(target, planted.tokens.slice(0, 4));
  const wires = Array.from({ length: CONNECTIONS }, () => createWire(target));
  const endTrouble = target.trouble?.();
  let tidied = 0;

  /** Puts the inputs on all connections at once; returns what did not hold. */
  async function putAll(together: readonly Input[]): Promise<string[]> {
    const left = [...together];
    const faults: string[] = [];
    const work = async (wire: Wire) => {
      for (let input = left.pop(); input !== undefined; input = left.pop()) {
        const outcome = await wire.put(input);
        count(figures, outcome);
        const fault = faultOf(input, outcome, planted, target);
        if (fault !== null) faults.push([fault, input, outcome].map((part) => JSON.stringify(part)).join('\n'));
      }
    };
    await Promise.all(wires.map(work));
    return faults;
  }

  const property = fc.asyncProperty(
    fc.array(inputs(planted, streams.paths), { minLength: 1, maxLength: TOGETHER_MAX, size: 'max' }),
    async (together) => {
      const [fault] = await putAll(together);
      if (fault !== undefined) throw new Error(fault);
    },
  );

  try {
    for (let round = 0; (figures.inputs < wanted || !until(figures.statuses)) && elapsedS() < seconds; round += 1) {
      await fc.assert(property, {
        seed: seed + round,
        numRuns: CASES_PER_ROUND,
        interruptAfterTimeLimit: Math.max(1, seconds - elapsedS()) * 1000,
      });
      for (const line of logged.lines()) {
        figures.logLines += 1;
        const fault = logFault(line, planted);
        if (fault !== null) throw new Error(`seed ${seed + round}: ${fault}`);
      }
      const streamed = eventsFault(streams.received(), planted);
      if (streamed !== null) throw new Error(`seed ${seed + round}: on a stream: ${streamed}`);
      figures.healthMsMax = Math.max(figures.healthMsMax, (await health(target)).ms);
      figures.rssMb.push(Math.round(residentMbOf(server.pid)));
      figures.seconds = elapsedS();
      if (figures.inputs - tidied > 20_000) {
        tidied = figures.inputs;
        if (target.trouble === null) await tidy(target, planted);
        onProgress?.(figures);
      }
    }
  } finally {
    await endTrouble?.();
    for (const wire of wires) wire.close();
    streams.close();
  }
  await waitFor(async () => (await health(target)).status === 200);
  const { keys } = await callAs(target, await target.userToken(VICTIM), 'list_api_keys');
  if (keys.length > 0) throw new Error('a forged token was taken');
  await checkSecrets(target, planted);
  if (server.stderr().split('\n').length > STDERR_LINES) throw new Error(`on stderr: ${server.stderr()}`);
  const code = await server.stop();
  if (code !== 0) throw new Error(`the server ended with ${code}`);
  return figures;
}

/** Only what is sent to /revoke has ended: no other key, and in a rotation no other secret. */
async function checkSecrets(target: Target, { keys, leaked, spared }: PlantedSecrets): Promise<void> {
  const refused = async (secrets: readonly string[]) => {
    const statuses = await Promise.all(secrets.map((secret) => useKey(target, secret)));
    return secrets.filter((_, index) => statuses[index] === 401).length;
  };
  const body = JSON.stringify(leaked.map((token) => ({ token, type: 'leaked' })));
  const headers = { 'content-type': 'application/json' };
  await waitFor(async () => (await target.fetch('/revoke', { method: 'POST', headers, body })).status === 200);
  if ((await refused(leaked)) < leaked.length) throw new Error('a leaked secret is still accepted');
  if ((await refused([...keys, ...spared])) > 0) throw new Error('a secret has ended that nobody sent to /revoke');
}

function count(figures: Figures, { responses, ended }: Outcome): void {
  figures.inputs += 1;
  if (ended === 'closed') figures.closed += 1;
  for (const { status } of responses) figures.statuses.set(status, (figures.statuses.get(status) ?? 0) + 1);
}

/** The banner, and nothing after it. */
const STDERR_LINES = 9;

async function health(target: Target): Promise<{ readonly status: number; readonly ms: number }> {
  const startedAtMs = performance.now();
  const response = await target.fetch('/mcp/health', { signal: AbortSignal.timeout(HEALTH_MS_MAX) });
  await response.text();
  const { status } = response;
  if (status !== 200 && !(status === 503 && target.trouble !== null)) throw new Error(`health responded ${status}`);
  return { status, ms: performance.now() - startedAtMs };
}

/** Deletes the keys that were made on the way: a list of 1,000 keys is long, and lists are not what is tested. */
async function tidy(target: Target, { tokens, keyIds }: PlantedSecrets): Promise<void> {
  for (const token of tokens.slice(0, USERS)) {
    const { keys } = (await callAs(target, token, 'list_api_keys')) as { keys: { id: string }[] };
    for (const { id } of keys) if (!keyIds.includes(id)) await callAs(target, token, 'delete_api_key', { keyId: id });
  }
}

/** Splits chunks into whole lines. */
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
