// The three places a store can be. A test body that must hold in all of them runs once in each.

import { join } from 'node:path';
import { temporaryFolder } from './folder.ts';
import { newDatabaseAt, startPrimary } from './template.ts';

export const STORE_MODES = ['embedded', 'remote', 'replica'] as const;
export type StoreMode = (typeof STORE_MODES)[number];

/**
 * Where test apps keep their keys unless told otherwise: `TEST_STORE=remote bun test tests/tools` runs those bodies
 * there.
 */
export function defaultStoreMode(): StoreMode {
  const named = process.env.TEST_STORE ?? 'embedded';
  const mode = STORE_MODES.find((known) => known === named);
  if (mode === undefined) throw new Error(`TEST_STORE: expected ${STORE_MODES.join(', ')}, got ${named}`);
  return mode;
}

/** One database, and the environment of any number of servers on it. */
export interface TestStore extends AsyncDisposable {
  /** The environment of one more server: on the same file, the same primary, or with a replica of its own. */
  env(): Record<string, string>;
}

/** A store whose data is in `folder`, where it is found again when another is started there later. */
export async function startStore(mode: StoreMode, folder = temporaryFolder()): Promise<TestStore> {
  if (mode === 'embedded') {
    const path = join(folder, 'keys.db');
    await newDatabaseAt(path);
    const url = `file:${path}`;
    return { env: () => ({ DATABASE_URL: url }), async [Symbol.asyncDispose]() {} };
  }
  const sqld = await startPrimary(folder);
  return { env: () => storeEnvOn(sqld.env, mode), [Symbol.asyncDispose]: sqld.kill };
}

/** The environment of a server on a given primary. */
export const storeEnvOn = (
  primary: Record<string, string>,
  mode: StoreMode,
  folder = temporaryFolder(),
): Record<string, string> =>
  mode === 'replica' ? { ...primary, DATABASE_REPLICA_FILE: join(folder, 'replica.db') } : primary;

/** A store that somebody else starts and stops, as an app sees it. */
export const storeOn = (env: Record<string, string>): TestStore => ({
  env: () => env,
  async [Symbol.asyncDispose]() {},
});
