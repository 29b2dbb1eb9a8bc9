// What must hold of every response and every log line, whatever was sent.

import type { ParsedResponse } from '../../support/http-responses.ts';
import type { Input } from './inputs.ts';
import { leakIn, type PlantedSecrets } from './planted-secrets.ts';
import type { Target } from './settings.ts';
import { isOfClient, redirectFault } from './signing-in.ts';
import type { Outcome } from './wire.ts';

/** The first thing that is wrong, or null. */
export function faultOf(
  input: Input,
  outcome: Outcome,
  planted: PlantedSecrets,
  { strict }: Pick<Target, 'strict'>,
): string | null {
  if (outcome.ended === 'hangs') return 'no response';
  if (outcome.ended === 'broken') return outcome.rest;
  if (input.expect === 'response' && outcome.responses.length !== 1)
    return `${outcome.responses.length} responses to a request`;
  if (input.expect === 'response' && outcome.rest !== '') return 'more than a response';
  const [response] = outcome.responses;
  if (input.expect === 'response' && input.chunks.join('').startsWith('POST /revoke ') && response !== undefined) {
    const fault = revocationFault(response);
    if (fault !== null) return fault;
  }
  const leak = leakIn(outcome.rest, planted);
  if (leak !== null) return `a secret came back: ${leak}`;
  for (const response of outcome.responses) {
    const fault = responseFault(response, planted, strict);
    if (fault !== null) return fault;
  }
  return null;
}

/** Whoever sends secrets learns nothing of them: what was understood gets this response, whatever it is. */
function revocationFault({ status, body }: ParsedResponse): string | null {
  if (status === 200) return body === '{}' ? null : `/revoke said ${body}`;
  return [400, 403, 413, 415, 429, 431, 503].includes(status) ? null : `/revoke responded ${status}`;
}

function responseFault(response: ParsedResponse, planted: PlantedSecrets, strict: boolean): string | null {
  const { status, headers, body } = response;
  // Every response of the app carries this header; the rest come from the runtime, to HTTP it can't make sense of.
  const byRuntime = !headers.has('x-content-type-options');
  if (byRuntime && !RUNTIME_STATUS.includes(status)) return `${status} without security headers`;
  if (!byRuntime && status >= 500 && status !== 503) return `responded ${status}`;
  // What /verify says is passed on for another host.
  const isOwn = !headers.has('x-key-owner');
  if (!byRuntime && strict && isOwn && !headers.has('strict-transport-security')) return `${status} leaves HTTPS open`;
  if ([429, 503].includes(status) && !headers.has('retry-after')) return `${status} without Retry-After`;
  const redirect = redirectFault(response);
  if (redirect !== null) return redirect;
  const headerLeak = leakIn([...headers.values()].join('\n'), planted);
  if (headerLeak !== null) return `a secret came back in a header: ${headerLeak}`;
  const type = headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) return eventsFault(body, planted);
  if (!type.includes('json') || body === '') return leakFault(body, planted);
  const json = parse(decoded(body));
  return json === undefined ? 'JSON that is none' : messageFault(json, planted);
}

/** The runtime's responses to HTTP that it can't read, that is too large, or of another version. */
const RUNTIME_STATUS = [400, 413, 431, 505];

/** What stands in the `data` lines of an event stream. */
export function eventsFault(text: string, planted: PlantedSecrets): string | null {
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: ')) continue;
    const json = parse(decoded(line.slice('data: '.length)));
    const fault = json === undefined ? leakFault(line, planted) : messageFault(json, planted);
    if (fault !== null) return `${fault}\n${line}`;
  }
  return null;
}

function messageFault(json: unknown, planted: PlantedSecrets): string | null {
  for (const message of Array.isArray(json) ? json : [json]) {
    const { error, location } = (message ?? {}) as { error?: { code?: unknown }; location?: unknown };
    if (location !== undefined && !isOfClient(String(location))) return `sent to ${location}`;
    if (error?.code === -32603) return 'internal error';
  }
  return leakFault(JSON.stringify(withoutEchoes(json)), planted);
}

const leakFault = (text: string, planted: PlantedSecrets): string | null => {
  const leak = leakIn(text, planted);
  return leak === null ? null : `a secret came back: ${leak}`;
};

/**
 * What a response has to repeat: the id and the progress token (JSON-RPC 2.0 §5, MCP), in a tool's output the name and
 * scopes of a key as its owner gave them, those that a program asks for, and where a client is sent back, its state.
 * The keys of create_api_key and of /token are given out there and nowhere else.
 */
const ECHOED = new Set(['client_name', 'clientName', 'id', 'location', 'progressToken', 'name', 'scopes']);

function withoutEchoes(value: unknown): unknown {
  if (typeof value === 'string') {
    // The output of a tool once more, as text.
    const nested = value.startsWith('{') ? parse(value) : undefined;
    return nested === undefined ? value : withoutEchoes(nested);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutEchoes);
  const given = 'warning' in value ? 'key' : 'token_type' in value ? 'access_token' : null;
  return Object.entries(value)
    .filter(([name]) => !ECHOED.has(name) && name !== given)
    .map(([name, inner]) => [name, withoutEchoes(inner)]);
}

/** What is wrong with a log line, or null. */
export function logFault(line: string, planted: PlantedSecrets): string | null {
  const json = parse(line) as { level?: unknown } | undefined;
  if (json === undefined) return `not JSON: ${line}`;
  if (json.level === 'error') return line;
  const leak = leakIn(line, planted);
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
