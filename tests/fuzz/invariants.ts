// What must hold of every answer and every log line, whatever was sent.

import type { RawAnswer } from '../support/answers.ts';
import { type Bait, leakIn } from './bait.ts';
import type { Input } from './inputs.ts';
import type { Target } from './settings.ts';
import type { Outcome } from './wire.ts';

/** The first thing that is wrong, or null. */
export function faultOf(input: Input, outcome: Outcome, bait: Bait, { strict }: Pick<Target, 'strict'>): string | null {
  if (outcome.ended === 'hangs') return 'no answer';
  if (outcome.ended === 'broken') return outcome.rest;
  if (input.expect === 'answer' && outcome.answers.length !== 1)
    return `${outcome.answers.length} answers to a request`;
  if (input.expect === 'answer' && outcome.rest !== '') return 'more than an answer';
  const leak = leakIn(outcome.rest, bait);
  if (leak !== null) return `a secret came back: ${leak}`;
  for (const answer of outcome.answers) {
    const fault = answerFault(answer, bait, strict);
    if (fault !== null) return fault;
  }
  return null;
}

function answerFault({ status, headers, body }: RawAnswer, bait: Bait, strict: boolean): string | null {
  // Every answer of the app carries this header; the rest come from the runtime, to HTTP it can't make sense of.
  const byRuntime = !headers.has('x-content-type-options');
  if (byRuntime && !RUNTIME_STATUS.includes(status)) return `${status} without security headers`;
  if (!byRuntime && status >= 500 && status !== 503) return `answered ${status}`;
  // What /verify says is passed on for another host.
  const isOwn = !headers.has('x-key-owner');
  if (!byRuntime && strict && isOwn && !headers.has('strict-transport-security')) return `${status} leaves HTTPS open`;
  if ([429, 503].includes(status) && !headers.has('retry-after')) return `${status} without Retry-After`;
  const headerLeak = leakIn([...headers.values()].join('\n'), bait);
  if (headerLeak !== null) return `a secret came back in a header: ${headerLeak}`;
  const type = headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) return eventsFault(body, bait);
  if (!type.includes('json') || body === '') return leakFault(body, bait);
  const json = parse(decoded(body));
  return json === undefined ? 'JSON that is none' : messageFault(json, bait);
}

/** The runtime's answers to HTTP that it can't read, that is too large, or of another version. */
const RUNTIME_STATUS = [400, 413, 431, 505];

/** What stands in the `data` lines of an event stream. */
export function eventsFault(text: string, bait: Bait): string | null {
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: ')) continue;
    const json = parse(decoded(line.slice('data: '.length)));
    const fault = json === undefined ? leakFault(line, bait) : messageFault(json, bait);
    if (fault !== null) return `${fault}\n${line}`;
  }
  return null;
}

function messageFault(json: unknown, bait: Bait): string | null {
  for (const message of Array.isArray(json) ? json : [json]) {
    const { error } = (message ?? {}) as { error?: { code?: unknown } };
    if (error?.code === -32603) return 'internal error';
  }
  return leakFault(JSON.stringify(withoutEchoes(json)), bait);
}

const leakFault = (text: string, bait: Bait): string | null => {
  const leak = leakIn(text, bait);
  return leak === null ? null : `a secret came back: ${leak}`;
};

/**
 * What an answer has to repeat: the id and the progress token (JSON-RPC 2.0 §5, MCP), and in a tool's output the name
 * and scopes of a key as its owner gave them. The key of create_api_key is given out there and nowhere else.
 */
const ECHOED = new Set(['id', 'progressToken', 'name', 'scopes']);

function withoutEchoes(value: unknown): unknown {
  if (typeof value === 'string') {
    // The output of a tool once more, as text.
    const nested = value.startsWith('{') ? parse(value) : undefined;
    return nested === undefined ? value : withoutEchoes(nested);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutEchoes);
  const created = 'warning' in value && 'key' in value;
  return Object.entries(value)
    .filter(([name]) => !ECHOED.has(name) && !(created && name === 'key'))
    .map(([name, inner]) => [name, withoutEchoes(inner)]);
}

/** What is wrong with a log line, or null. */
export function logFault(line: string, bait: Bait): string | null {
  const json = parse(line) as { level?: unknown } | undefined;
  if (json === undefined) return `not JSON: ${line}`;
  if (json.level === 'error') return line;
  const leak = leakIn(line, bait);
  return leak === null ? null : `a secret in the log: ${line}`;
}

const decoded = (bytes: string) => Buffer.from(bytes, 'latin1').toString('utf8');

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
