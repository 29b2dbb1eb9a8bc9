// A version of the program: a commit of this repository with its packages, its server, and its command.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { output, run } from '../../support/command.ts';
import { diskFolder } from '../../support/folder.ts';
import { type Runtime, startServer, USUAL_RUNTIME } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const ROOT = join(import.meta.dir, '../../..');
const CLOCK = join(import.meta.dir, 'clock-days-ago.ts');

/** Of every server and command: the limit is the keys' own, and whoever is called root is an admin. */
const SETTINGS = {
  JWT_SECRET: TEST_SECRET,
  ADMIN_CLAIM: 'sub=root',
  OAUTH_REDIRECTS: 'loopback',
  RATE_LIMIT_REQUESTS: '0',
  LOG_LEVEL: 'warn',
};

type Env = Readonly<Record<string, string>>;

export type Version = ReturnType<typeof versionAt>;

const versionAt = (name: string, root: string, folder: string, runtime: Runtime) => ({
  name,
  /** How many it knows. */
  migrations: readdirSync(join(root, 'db')).filter((file) => file.endsWith('.sql')).length,
  /** `daysAgo`: what its wall clock says; on Bun. */
  start: (env: Env, daysAgo = 0) =>
    startServer({
      root,
      runtime,
      env: { ...SETTINGS, ...env, DAYS_AGO: String(daysAgo) },
      folder,
      ...(daysAgo > 0 && { preload: [CLOCK] }),
    }),
  /** Runs `keys …`. */
  keys: (env: Env, args: readonly string[]) =>
    run([process.execPath, '--no-env-file', join(root, 'src/commands/keys.ts'), ...args], {
      cwd: folder,
      env: { ...SETTINGS, ...env },
    }),
});

export const today = (): Version => versionAt('today', ROOT, diskFolder(), USUAL_RUNTIME);

const git = (...args: string[]) => output(['git', '-C', ROOT, ...args], { cwd: ROOT });

/** Returns the first commit that has today's schema. */
export const firstOfSchema = async (): Promise<string> =>
  (await git('log', '-1', '--format=%h', '--', 'db/*.sql')).trim();

/** The version of a commit, in a work tree that is removed at the end. */
export async function checkedOut(commit: string): Promise<Version & AsyncDisposable> {
  const folder = diskFolder();
  const root = join(folder, 'source');
  await git('worktree', 'add', '--detach', root, commit);
  await output([process.execPath, 'install', '--frozen-lockfile', '--ignore-scripts'], { cwd: root });
  return {
    ...versionAt(commit, root, folder, 'bun'),
    async [Symbol.asyncDispose]() {
      await git('worktree', 'remove', '--force', root);
    },
  };
}
