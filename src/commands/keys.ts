// `bun run keys <verb>`: what an operator does with anybody's keys, in the configured database, beside running servers.
// The verbs are in keys/. Exit codes: 0 done, 1 failed, 2 wrong usage, or not confirmed.

import { asksForHelp } from './help.ts';
import { nearest } from './keys/arguments.ts';
import { writeOut } from './keys/terminal.ts';
import { CommandError, ReaderLeft, UsageError, type Verb } from './keys/verb.ts';

const VERBS: ReadonlyMap<string, () => Promise<{ verb: Verb }>> = new Map([
  ['list', () => import('./keys/list.ts')],
  ['show', () => import('./keys/show.ts')],
  ['create', () => import('./keys/create.ts')],
  ['update', () => import('./keys/update.ts')],
  ['revoke', () => import('./keys/revoke.ts')],
  ['block', async () => ({ verb: (await import('./keys/block.ts')).block })],
  ['unblock', async () => ({ verb: (await import('./keys/block.ts')).unblock })],
  ['events', () => import('./keys/events.ts')],
  ['backup', () => import('./keys/backup.ts')],
  ['restore', () => import('./keys/restore.ts')],
  ['import', () => import('./keys/import.ts')],
  ['doctor', () => import('./keys/doctor.ts')],
]);

async function help(): Promise<string> {
  const lines = await Promise.all(
    [...VERBS.values()].map(async (load) => {
      const { usage, summary } = (await load()).verb;
      return `  ${usage}\n      ${summary}\n`;
    }),
  );
  return `usage: keys <verb> …\n\n${lines.join('')}\nThe database is that of the server's configuration (DATABASE_URL, DATABASE_AUTH_TOKEN). Running servers\nlearn of every change within REVOCATION_LAG_MAX_MS.\n`;
}

async function run([name = '--help', ...args]: readonly string[]): Promise<void> {
  if (name === 'help' || asksForHelp([name])) return writeOut(await help());
  const load = VERBS.get(name);
  if (load === undefined) {
    const near = nearest(name, [...VERBS.keys()]);
    const hint = near === undefined ? [...VERBS.keys()].join(', ') : `did you mean ${near}?`;
    throw new CommandError(`there is no verb of this name; ${near === undefined ? 'there are ' : ''}${hint}`, 2);
  }
  const { verb } = await load();
  if (asksForHelp(args)) return writeOut(`usage: keys ${verb.usage}\n${verb.summary}\n`);
  await verb.run(args, process.env).catch((error) => {
    throw error instanceof UsageError ? new CommandError(`${error.message}\nusage: keys ${verb.usage}`, 2) : error;
  });
}

export async function main(args: readonly string[]): Promise<void> {
  process.stdout.on('error', () => {}); // handled in writeOut
  try {
    await run(args);
  } catch (error) {
    if (error instanceof ReaderLeft) return;
    if (!(error instanceof CommandError)) throw error;
    process.stderr.write(`keys: ${error.message}\n`);
    process.exitCode = error.exitCode;
  }
}

if (import.meta.main) await main(process.argv.slice(2));
