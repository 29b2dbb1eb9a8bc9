// Our server, and the others it is measured against.

import { join } from 'node:path';
import { TEST_SECRET } from '../../support/test-app.ts';
import type { BodyRead, CannedResponse } from './loads.ts';
import { type Process, startProcess } from './process.ts';

export const MAIN = join(import.meta.dir, '../../../src/main.ts');

/** A script of servers/. */
export const serverScript = (name: string) => join(import.meta.dir, 'servers', `${name}.ts`);

/** Everything at its default, except for a rate limit nobody reaches. */
export const ourEnv = (databasePath: string) => ({
  DATABASE_URL: `file:${databasePath}`,
  JWT_SECRET: TEST_SECRET,
  RATE_LIMIT_REQUESTS: '1000000000',
});

export const startOurs = (
  databasePath: string,
  env: Readonly<Record<string, string>> = {},
  command: readonly string[] = [process.execPath, MAIN],
): Promise<Process> => startProcess({ name: 'this server', command, env: { ...ourEnv(databasePath), ...env } });

/** The bare limit for a response. */
export const startBare = (response: CannedResponse, reads: BodyRead = 'json'): Promise<Process> =>
  startOther('bare', JSON.stringify(response), reads);

/** The same with the server's batching of responses: what that costs where there is nothing to gather. */
export const startBatchedBare = (response: CannedResponse): Promise<Process> =>
  startOther('bare', JSON.stringify(response), 'json', 'batched');

/** The ideal script for a call of get_data with this key. */
export const startIdeal = (response: CannedResponse, key: string): Promise<Process> =>
  startOther('ideal', JSON.stringify(response), key);

/** A script of servers/, with its arguments. */
export const startOther = (name: string, ...args: readonly string[]): Promise<Process> =>
  startProcess({ name, command: [process.execPath, serverScript(name), ...args] });
