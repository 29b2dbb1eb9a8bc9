// An attacker over many connections: sends whatever he can think of, as fast as he can.

import { openSocket, postText } from '../../support/http-socket.ts';

/** Calls in one MCP batch, which may have no more. */
const BATCH_CALLS = 100;

interface AttackOptions {
  readonly connections: number;
  /** Calls: shared by everything that runs here, the attacker too, so what it reaches depends on the machine. */
  readonly perSMax: number;
}

interface Sent {
  /** A request, by its number from 1. */
  readonly next: (count: number) => string;
  /** How many calls it is. */
  readonly calls?: number;
  /** The end of a response, which is JSON. */
  readonly last?: '}' | ']';
}

/** Sends one request after the other on each connection until `end` is called. */
export async function attack(
  url: string,
  { connections, perSMax }: AttackOptions,
  { next, calls = 1, last = '}' }: Sent,
) {
  const startedMs = performance.now();
  const end = last.charCodeAt(0);
  let sent = 0;
  let answered = 0;
  const sockets = await Promise.all(Array.from({ length: connections }, () => openSocket(url)));
  for (const socket of sockets) {
    const ask = () => {
      if (socket.destroyed) return;
      const aheadMs = (sent / perSMax) * 1000 - (performance.now() - startedMs);
      if (aheadMs > 5) return void setTimeout(ask, aheadMs);
      sent += calls;
      socket.write(next(sent / calls));
    };
    socket.on('data', (chunk) => {
      if (chunk.at(-1) !== end) return;
      answered += calls;
      ask();
    });
    ask();
  }
  return {
    /** Responses so far; each call of a batch has one. */
    get answered() {
      return answered;
    },
    end() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Guesses keys, a new one each time. `headersOf`: by the number of the request. */
export function guess(
  url: string,
  options: AttackOptions & { readonly inBatches: boolean; headersOf?(count: number): Record<string, string> },
) {
  const { inBatches, headersOf } = options;
  const keyOf = (count: number) => `sk_test_${count.toString(16).padStart(64, '0')}`;
  const single = (count: number) =>
    postText('/tools/get_data', '{}', { 'X-API-Key': keyOf(count), ...headersOf?.(count) });
  const batch = (count: number) => {
    const calls = Array.from({ length: BATCH_CALLS }, (_, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'get_data', arguments: {}, _meta: { api_key: keyOf(count * BATCH_CALLS + id) } },
    }));
    const accepted = { Accept: 'application/json', 'MCP-Protocol-Version': '2025-03-26' };
    return postText('/mcp', JSON.stringify(calls), { ...accepted, ...headersOf?.(count) });
  };
  return attack(url, options, inBatches ? { next: batch, calls: BATCH_CALLS, last: ']' } : { next: single });
}
