// Whether today's server, on what the version before has left, keeps all of it, and goes on with it.

import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { diskFolder } from '../../support/folder.ts';
import { CALLBACK } from '../../support/hand-over.ts';
import { allKeys, beyondRefusals, called, type Left, trail, used, usesUntilRefused } from './left.ts';
import type { Report } from './report.ts';
import type { Version } from './version.ts';

type Env = Readonly<Record<string, string>>;
type Listed = Readonly<Record<string, unknown>>;

/** `entries`, each with the fields alone that the one of `model` in its place has. */
const asIn = (model: readonly Listed[], entries: readonly Listed[]) =>
  entries.map((entry, at) => Object.fromEntries(Object.keys(model[at] ?? entry).map((name) => [name, entry[name]])));

export async function opens(version: Version, env: Env, left: Left, { same }: Report): Promise<void> {
  await using server = await version.start(env);
  const { url } = server;
  same(
    'the list of all keys is as it was: states, times, uses of each day, limits',
    asIn(left.listed, await allKeys(url)),
    left.listed,
  );
  same('the trail is as it was', asIn(left.events, await trail(version, env)), left.events);
  for (const [name, { secret, status }] of Object.entries(left.secrets)) {
    same(`the secret: ${name}`, await used(url, secret), status);
  }
  const blocked = await callOver(url, 'list_api_keys', {}, await userHeaders('bob'));
  same('a blocked owner is refused', blocked.body.code, 'user_blocked');
  for (const [name, uses] of Object.entries(left.left)) {
    const found = await usesUntilRefused(url, left.secrets[name]?.secret ?? '');
    same(`what is left of the quota or limit: ${name}`, found + (name === 'day' ? 0 : 1), uses); // one was used above
  }
  const asked = new URLSearchParams({
    response_type: 'code',
    client_id: left.clientId,
    redirect_uri: CALLBACK,
    code_challenge: 'a'.repeat(43),
    code_challenge_method: 'S256',
  });
  same('an OAuth client need not register again', (await fetch(`${url}/authorize?${asked}`)).status, 200);
  const unblocked = await version.keys(env, ['unblock', 'bob']);
  same('the owner is unblocked', unblocked.code, 0);
  await called(url, 'revoke_api_key', { keyId: left.ids.live }, 'alice');
  same('a key of then is revoked', await used(url, left.secrets.live?.secret ?? ''), 401);
  await called(url, 'rotate_api_key', { keyId: left.ids.writer }, 'alice');
  same('it stops in order', await server.stop(), 0);
  same('and has logged nothing but refusals', beyondRefusals(server), []);
}

/** What the version before has backed up, put into a new database by today's command. */
export async function restores(version: Version, left: Left, { same }: Report): Promise<void> {
  const env = { DATABASE_URL: `file:${join(diskFolder(), 'restored.db')}` };
  const { code, stderr } = await version.keys(env, ['restore', left.backup, '--yes']);
  same('its backup is restored', code === 0 ? 0 : stderr, 0);
  await using server = await version.start(env);
  same('with the same keys', asIn(left.listed, await allKeys(server.url)), left.listed);
  await server.stop();
}
