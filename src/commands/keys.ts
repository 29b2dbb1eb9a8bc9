// `bun run keys <verb>`: what operators do with anybody's keys, in the configured database, beside running servers. The
// verbs are in keys/.

import { type Command, endWith, mainOf, runNamed, wrapped } from './command.ts';
import type { Io } from './io.ts';

export const VERBS = {
  list: async () => (await import('./keys/list.ts')).verb,
  show: async () => (await import('./keys/show.ts')).verb,
  create: async () => (await import('./keys/create.ts')).verb,
  header: async () => (await import('./keys/header.ts')).verb,
  update: async () => (await import('./keys/update.ts')).verb,
  revoke: async () => (await import('./keys/revoke.ts')).verb,
  owner: async () => (await import('./keys/owner.ts')).owner,
  owners: async () => (await import('./keys/owner.ts')).owners,
  rule: async () => (await import('./keys/rule.ts')).verb,
  block: async () => (await import('./keys/block.ts')).block,
  unblock: async () => (await import('./keys/block.ts')).unblock,
  usage: async () => (await import('./keys/usage.ts')).verb,
  events: async () => (await import('./keys/events.ts')).verb,
  backup: async () => (await import('./keys/backup.ts')).verb,
  restore: async () => (await import('./keys/restore.ts')).verb,
  export: async () => (await import('./keys/export.ts')).verb,
  import: async () => (await import('./keys/import.ts')).verb,
  doctor: async () => (await import('./keys/doctor.ts')).verb,
};

const ABOUT =
  "The database is that of the server's configuration (DATABASE_URL, DATABASE_AUTH_TOKEN). Running servers learn of every change within REVOCATION_LAG_MAX_MS. T is a time like 2026-01-31T09:30:00Z, without Z the machine's.";

const INDENT = ' '.repeat(6);

async function help(io: Io): Promise<void> {
  const verbs = await Promise.all(Object.values(VERBS).map((load) => load()));
  const lines = verbs.map(({ usage, summary }) => `${usage.replace(/^keys /gm, '  ')}\n${wrapped(summary, INDENT)}`);
  return io.write(`usage: keys <verb> …\n\n${lines.join('')}\n${wrapped(ABOUT)}`);
}

const runVerb = runNamed(VERBS, 'verb', help);

export const keys: Pick<Command, 'run'> = {
  run: (args, io) => (args[0] === 'help' ? help(io) : runVerb(args, io)),
};

export const main = mainOf(keys, 'keys');

if (import.meta.main) void endWith(main);
