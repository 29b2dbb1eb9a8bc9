// Has a server of the version before make and use keys of every kind, as people and programs do, and end; remembers what it
// has shown of them.

import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { diskFolder } from '../../support/folder.ts';
import { CALLBACK, register } from '../../support/hand-over.ts';
import { jsonLines } from '../../support/keys-command.ts';
import type { Version } from './version.ts';

type Env = Readonly<Record<string, string>>;
// biome-ignore lint/suspicious/noExplicitAny: what JSON holds
type Json = any;

const FORMER_DAYS_AGO = 2;

export interface Left {
  /** What a use of each secret must get, by what the secret is. */
  readonly secrets: Readonly<Record<string, { readonly secret: string; readonly status: number }>>;
  /** Ids by the names of the keys. */
  readonly ids: Readonly<Record<string, string>>;
  /** All keys, as an admin is shown them. */
  readonly listed: readonly Json[];
  /** The trail, as the command prints it. */
  readonly events: readonly Json[];
  /** What the version's own command wrote. */
  readonly backup: string;
  /** How often keys with a quota or limit could be used still. */
  readonly left: Readonly<Record<string, number>>;
  /** A registered OAuth client. */
  readonly clientId: string;
}

/** Throws unless it succeeds. */
export async function called(url: string, tool: string, input: unknown, owner: string): Promise<Json> {
  const { status, body } = await callOver(url, tool, input, await userHeaders(owner));
  if (status !== 200) throw new Error(`${tool}: ${status} ${JSON.stringify(body)}`);
  return body;
}

export const used = async (url: string, key: string): Promise<number> =>
  (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status;

/** Uses of a key until one is refused. */
export async function usesUntilRefused(url: string, key: string): Promise<number> {
  for (let uses = 0; ; uses += 1) if ((await used(url, key)) !== 200) return uses;
}

export const allKeys = async (url: string): Promise<Json[]> => (await called(url, 'admin_list_keys', {}, 'root')).keys;

const REFUSALS = [
  'Invalid or expired API key',
  'Insufficient scopes',
  'Quota exceeded',
  'Rate limit exceeded',
  'User blocked',
];

/** What a server has logged, but for refusals of what was to be refused. */
export const beyondRefusals = (server: { stdout(): string }): Json[] =>
  jsonLines({ stdout: server.stdout() }).filter(({ event }) => !REFUSALS.includes(event));

/** What `keys …` prints. Throws unless it succeeds. */
async function ran(version: Version, env: Env, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await version.keys(env, args);
  if (code !== 0) throw new Error(`keys ${args.join(' ')}: ${stderr}`);
  return stdout;
}

export const trail = async (version: Version, env: Env): Promise<Json[]> =>
  jsonLines({ stdout: await ran(version, env, ['events', '--json', '--limit', '1000']) });

/** Makes, uses and ends keys at the server at `url`, by their names, and keeps what a use of each secret must get. */
function keysAt(url: string, kept: Pick<Left, 'secrets' | 'ids'>) {
  const secrets = kept.secrets as Record<string, { secret: string; status: number }>;
  const ids = kept.ids as Record<string, string>;
  const end = (tool: string, name: string, more: object = {}) =>
    called(url, tool, { keyId: ids[name], ...more }, 'alice');
  return {
    end,
    async make(name: string, more: object = {}, owner = 'alice', status = 200): Promise<void> {
      const { id, key } = await called(url, 'create_api_key', { name, scopes: ['read'], ...more }, owner);
      ids[name] = id;
      secrets[name] = { secret: key, status };
    },
    async rotate(name: string, more: object = {}): Promise<void> {
      const { key } = await end('rotate_api_key', name, more);
      secrets[`${name}, the new secret`] = { secret: key, status: 200 };
    },
    async use(name: string, times: number): Promise<void> {
      for (let n = 0; n < times; n += 1) {
        const status = await used(url, secrets[name]?.secret ?? '');
        if (status !== 200) throw new Error(`use of ${name}: ${status}`);
      }
    },
  };
}

export async function leave(version: Version, env: Env): Promise<Left> {
  const kept = { secrets: {}, ids: {} };
  await leaveOnFormerDay(version, env, kept);
  await using server = await version.start(env);
  const { url } = server;
  const { make, use, end, rotate } = keysAt(url, kept);
  await use('live', 2);
  await make('writer', { scopes: ['write', 'read:orders'], expiresInDays: 30 }, 'alice', 403);
  await make('revoked', {}, 'alice', 401);
  await use('revoked', 1);
  await end('revoke_api_key', 'revoked');
  await make('deleted', {}, 'alice', 401);
  await end('delete_api_key', 'deleted');
  await make('ended by an admin', {}, 'dora', 401);
  await called(url, 'admin_revoke_keys', { owner: 'dora' }, 'root');
  await make('overlapping');
  await rotate('overlapping');
  await use('overlapping, the new secret', 1);
  await make('rotated at once', {}, 'alice', 401);
  await rotate('rotated at once', { overlapHours: 0 });
  await make('of a rotation begun');
  await rotate('of a rotation begun');
  await make('of a blocked owner', {}, 'bob', 401);
  await use('of a blocked owner', 1);
  await make('of an owner who was blocked', {}, 'carol');
  await use('month', 3);
  await make('day', { quota: { requests: 5, period: 'day' } }, 'alice', 429);
  await use('day', 5);
  await make('limited', { rateLimit: { requests: 10, window: '1d' } });
  await use('limited', 6);
  const { clientId } = await register(server, [CALLBACK]);
  for (const args of [
    ['block', 'bob'],
    ['block', 'carol'],
    ['unblock', 'carol'],
  ])
    await ran(version, env, args);
  const listed = await allKeys(url);
  const code = await server.stop();
  if (code !== 0) throw new Error(`${version.name} ended with ${code}: ${server.stderr()}`);

  const backup = join(diskFolder(), 'backup.db');
  await ran(version, env, ['backup', backup]);
  const left = { month: 20 - 3 - usesOfFormerDay(), day: 0, limited: 4 };
  return { ...kept, listed, events: await trail(version, env), backup, left, clientId };
}

/** What was made and used two days ago. */
async function leaveOnFormerDay(version: Version, env: Env, kept: Pick<Left, 'secrets' | 'ids'>): Promise<void> {
  await using server = await version.start(env, FORMER_DAYS_AGO);
  const { make, use } = keysAt(server.url, kept);
  await make('live');
  await use('live', 3);
  await make('expired', { expiresInDays: 1 }, 'alice', 401);
  await use('expired', 1);
  await make('month', { quota: { requests: 20, period: 'month' } });
  await use('month', 4);
  await server.stop();
}

/** Those of the key `month` that are of this month. */
function usesOfFormerDay(): number {
  const now = new Date();
  const former = new Date(now.getTime() - FORMER_DAYS_AGO * 86_400_000);
  return former.getUTCMonth() === now.getUTCMonth() ? 4 : 0;
}
