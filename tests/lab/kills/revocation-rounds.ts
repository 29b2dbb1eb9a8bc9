// Keys that are used all the time on every server of a cluster while one of them ends their secrets.

import { userHeaders } from '../../support/client.ts';
import { callServer, served, useKey } from '../../support/cluster.ts';
import type { StoreMode } from '../../support/store-mode.ts';
import { type Used, usedWhile } from './used-while.ts';

export const CLUSTERS: Readonly<Record<string, readonly StoreMode[]>> = {
  'on one file': ['embedded', 'embedded', 'embedded'],
  'on one primary': ['remote', 'remote', 'remote'],
  'with a replica each': ['replica', 'replica', 'replica'],
  'some with a replica, some without': ['remote', 'replica', 'remote'],
};
const CALLERS_PER_SERVER = 2;
/** A hundred uses between two polls, and time left for the servers. */
const USE_EVERY_MS = 2;

/** Each makes a server end a secret at once. */
const ENDS: readonly ((
  server: { url: string },
  body: MadeKey,
  headers: Record<string, string>,
) => Promise<{ status: number }>)[] = [
  (server, { id }, headers) => callServer(server, 'revoke_api_key', { keyId: id }, headers),
  (server, { id }, headers) => callServer(server, 'rotate_api_key', { keyId: id, overlapHours: 0 }, headers),
  ({ url }, { key }) => fetch(`${url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) }),
];

interface MadeKey {
  readonly id: string;
  readonly key: string;
}

/**
 * One key: made on one server, used on all until everybody refuses it. The next server ends its secret, from round to
 * round in another way; in every other round that secret is the previous one, or the next, of a rotation.
 */
export async function revocationRound(
  { servers }: { readonly servers: readonly { readonly url: string }[] },
  round: number,
  user: string,
): Promise<Used> {
  const maker = servers[round % servers.length];
  const revoker = servers[(round + 1) % servers.length];
  if (maker === undefined || revoker === undefined) throw new Error('a cluster without servers');
  const headers = await userHeaders(user);
  const end = ENDS[round % ENDS.length];
  if (end === undefined) throw new Error('no way to end a secret');
  const call = (tool: string, input: object) => served(() => callServer(maker, tool, input, headers));
  const { body } = await call('create_api_key', { name: 'hammered', scopes: ['read'] });
  if (round % 2 === 1) {
    const { body: rotated } = await call('rotate_api_key', { keyId: body.id });
    if (round % 4 === 1) await useKey(maker, rotated.key);
  }
  const pace = { callers: CALLERS_PER_SERVER, everyMs: USE_EVERY_MS, beforeMs: 30 * Math.random() }; // between two polls
  const acknowledged = async () => void (await served(() => end(revoker, body, headers)));
  const used = await usedWhile(servers, body.key, acknowledged, pace);
  await call('delete_api_key', { keyId: body.id });
  return used;
}
