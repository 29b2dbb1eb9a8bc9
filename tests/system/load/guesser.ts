// An attacker who guesses keys as fast as he can, from one address, over many connections.

import { openSocket, postText } from '../../support/http-socket.ts';

/** Calls in one MCP batch, which may have no more. */
const BATCH_CALLS = 100;

export interface Guesser {
  /** Keys that were refused so far. */
  readonly answered: number;
  /** Of them, refused with 429. */
  readonly turnedAway: number;
  end(): void;
}

export interface GuesserOptions {
  readonly connections: number;
  /** Keys: shared by everything that runs here, the attacker too, so what it reaches depends on the machine. */
  readonly perSMax: number;
  readonly inBatches: boolean;
}

/** Guesses until `end` is called. */
export async function guess(url: string, { connections, perSMax, inBatches }: GuesserOptions): Promise<Guesser> {
  const startedMs = performance.now();
  let sent = 0;
  let answered = 0;
  let turnedAway = 0;
  const nextKey = () => {
    sent += 1;
    return `sk_test_${sent.toString(16).padStart(64, '0')}`;
  };
  const single = () => postText('/tools/get_data', '{}', { 'X-API-Key': nextKey() });
  const batch = () => {
    const calls = Array.from({ length: BATCH_CALLS }, (_, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'get_data', arguments: {}, _meta: { api_key: nextKey() } },
    }));
    const headers = { Accept: 'application/json', 'MCP-Protocol-Version': '2025-03-26' };
    return postText('/mcp', JSON.stringify(calls), headers);
  };
  const end = inBatches ? 0x5d : 0x7d; // of an array, of an object

  const sockets = await Promise.all(Array.from({ length: connections }, () => openSocket(url)));
  for (const socket of sockets) {
    const ask = () => {
      if (socket.destroyed) return;
      const aheadMs = (sent / perSMax) * 1000 - (performance.now() - startedMs);
      if (aheadMs > 5) return void setTimeout(ask, aheadMs);
      socket.write(inBatches ? batch() : single());
    };
    socket.on('data', (chunk) => {
      if (chunk.includes('rate_limited') || chunk.includes('HTTP/1.1 429')) turnedAway += 1;
      if (chunk.at(-1) !== end) return;
      answered += inBatches ? BATCH_CALLS : 1;
      ask();
    });
    ask();
  }
  return {
    get answered() {
      return answered;
    },
    get turnedAway() {
      return turnedAway;
    },
    end() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
