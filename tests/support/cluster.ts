// Several real servers on one database, and callers of them.

import { callOver } from './client.ts';
import { executeAt } from './database-client.ts';
import { diskFolder, temporaryFolder } from './folder.ts';
import { keysOutput } from './keys-command.ts';
import { LOOP_MONITOR } from './loop-pauses.ts';
import { type Runtime, startServer, USUAL_RUNTIME } from './server-process.ts';
import { type StoreMode, startStore, storeEnvOn } from './store-mode.ts';
import { startPrimary } from './template.ts';
import { TEST_SECRET, type TestResponse } from './test-app.ts';

/** A call waits this long for its response; a server that takes longer was busy elsewhere. */
const CALL_MS_MAX = 10_000;
const SERVED_EVERY_MS = 100;

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/** One server for each mode named. Embedded ones share a file, the others a primary. Only Bun's have a loop monitor. */
export async function startCluster(
  modes: readonly StoreMode[],
  env: Record<string, string> = {},
  runtimes: readonly Runtime[] = modes.map(() => USUAL_RUNTIME),
) {
  const embedded = modes.includes('embedded') ? await startStore('embedded', folderFor(runtimes)) : null;
  const sqld = embedded === null ? await startPrimary() : null;
  const all = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'warn', ...env };
  const servers = await Promise.all(
    modes.map((mode, at) =>
      startServer({
        runtime: runtimes[at] ?? USUAL_RUNTIME,
        env: { ...all, ...(sqld === null ? embedded?.env() : storeEnvOn(sqld.env, mode, folderFor(runtimes))) },
        preload: [LOOP_MONITOR],
      }),
    ),
  );
  for (const [at, server] of servers.entries()) if (runtimes[at] === 'bun') server.signal('SIGUSR2');
  return {
    servers,
    /** The primary of remote servers. */
    sqld,
    /** The environment of a command beside them. */
    database: sqld?.env ?? embedded?.env() ?? {},
    /** Stops all in order, and says what their loop monitors saw. */
    async stop(): Promise<{ longestPausesMs: number[]; rssMb: number }[]> {
      await Promise.all(servers.map((server) => server.stop()));
      return servers.map((server) => JSON.parse(server.stderr().trim().split('\n').at(-1) ?? ''));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server.kill()));
      await sqld?.kill();
    },
  };
}

/** What an operator does beside the servers: commands, whose output is returned, and SQL in a shell. */
export function operatorOf({ database }: Cluster) {
  return {
    keys: async (...args: string[]): Promise<string> => (await keysOutput(database, args)).trim(),
    async shell(sql: string): Promise<void> {
      await executeAt(database.DATABASE_URL ?? '', sql);
    },
  };
}

/** Where every one of these runtimes may write. */
const folderFor = (runtimes: readonly Runtime[]) => (runtimes.includes('deno') ? diskFolder() : temporaryFolder());

export const callServer = (
  { url }: { url: string },
  tool: string,
  input: unknown,
  headers: Record<string, string>,
): Promise<TestResponse> => callOver(url, tool, input, headers, AbortSignal.timeout(CALL_MS_MAX));

/** The response to a call that is made until it is served: a machine that is slower than the bound gets 503, as it should. */
export async function served<R extends { status: number }>(ask: () => Promise<R>): Promise<R> {
  for (;;) {
    const response = await ask();
    if (response.status !== 503) return response;
    await Bun.sleep(SERVED_EVERY_MS);
  }
}

/** The status that one use of a key gets. */
export const useKey = async (server: { url: string }, key: string): Promise<number> =>
  (await callServer(server, 'get_data', {}, { 'x-api-key': key })).status;
