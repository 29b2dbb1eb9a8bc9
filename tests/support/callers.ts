// Real servers on one database, and callers who use one key at them until each of them refuses it.

import { callOver, userHeaders, userOn } from './client.ts';
import { type ServerProcess, startServer } from './server-process.ts';
import { TEST_SECRET } from './test-app.ts';
import { waitFor } from './wait-for.ts';

const DAY_MS = 86_400_000;
/** Longer than these tests take. */
const AWAY_MS = 60_000;
export const CALLERS_EACH = 4;
const HALF_SECOND_MS = 500;

/** Days, months and the longest window all begin at a midnight of UTC: waits for it if it is near. */
export async function awayFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS);
  if (leftMs < AWAY_MS) await Bun.sleep(leftMs + 2000);
}

export const startSeveral = (
  started: AsyncDisposableStack,
  count: number,
  env: Record<string, string>,
): Promise<ServerProcess[]> =>
  Promise.all(
    Array.from({ length: count }, async () =>
      started.use(await startServer({ env: { JWT_SECRET: TEST_SECRET, LOG_LEVEL: 'error', ...env } })),
    ),
  );

export interface LimitedKey {
  readonly id: string;
  readonly key: string;
}

export async function limitedKey(server: { url: string }, limits: object): Promise<LimitedKey> {
  const { status, body } = await (await userOn(server)).create(limits);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
}

/** Uses of today, as a server shows them to the owner of the key, who asks again if he asked too often. */
export async function usesToday(server: { url: string }, { id }: LimitedKey): Promise<number> {
  const headers = await userHeaders('alice');
  let keys: readonly { id: string; uses?: { today: number } }[] = [];
  await waitFor(async () => {
    const { status, body } = await callOver(server.url, 'list_api_keys', {}, headers);
    if (status === 200) keys = body.keys;
    return status === 200;
  });
  return keys.find((key) => key.id === id)?.uses?.today ?? 0;
}

export const use = ({ url }: { url: string }, { key }: LimitedKey) =>
  callOver(url, 'get_data', {}, { 'x-api-key': key });

export interface Seen {
  accepted: number;
  refused: number;
  /** Those that said something else, or nothing. */
  readonly others: string[];
  /** When each accepted call had its response. */
  readonly atMs: number[];
  /** What was left of the limit, according to each response. */
  readonly remaining: number[];
}

/**
 * Calls at several connections, with a pause after each, until `done`, which is asked after each response. Unless given,
 * until calls beyond the limit are refused.
 */
export async function callers(
  server: { url: string },
  key: LimitedKey,
  {
    done = ({ refused }: Seen) => refused >= CALLERS_EACH,
    pauseMs = 0,
  }: { done?: (seen: Seen) => boolean; pauseMs?: number } = {},
): Promise<Seen> {
  const seen: Seen = { accepted: 0, refused: 0, others: [], atMs: [], remaining: [] };
  async function work(): Promise<void> {
    while (!done(seen)) {
      const response = await use(server, key).catch((error) => String(error));
      if (typeof response === 'string') {
        seen.others.push(response);
        return;
      }
      const { status, headers } = response;
      if (status === 200) {
        seen.accepted += 1;
        seen.atMs.push(performance.now());
      } else if (status === 429) seen.refused += 1;
      else seen.others.push(`status ${status}`);
      const left = /r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1];
      if (left !== undefined) seen.remaining.push(Number(left));
      if (pauseMs > 0) await Bun.sleep(pauseMs);
    }
  }
  await Promise.all(Array.from({ length: CALLERS_EACH }, work));
  return seen;
}

export const sumOf = (all: readonly Seen[]): number => all.reduce((sum, { accepted }) => sum + accepted, 0);

/** Calls a second at the busiest: the most in any half second, doubled. */
export function busiestRate(all: readonly Pick<Seen, 'atMs'>[]): number {
  let most = 0;
  for (const { atMs } of all) {
    for (let from = 0, to = 0; to < atMs.length; to += 1) {
      while ((atMs[to] ?? 0) - (atMs[from] ?? 0) > HALF_SECOND_MS) from += 1;
      most = Math.max(most, to - from + 1);
    }
  }
  return most * 2;
}
