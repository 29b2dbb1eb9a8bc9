// How long a secret lives on that has ended: it is used all the time on every server of a cluster while one of them ends it.

import { userHeaders } from '../../support/client.ts';
import { type Cluster, callServer, served, useKey } from '../../support/cluster.ts';
import type { StoreMode } from '../../support/store-mode.ts';

export const CLUSTERS: Readonly<Record<string, readonly StoreMode[]>> = {
  'on one file': ['embedded', 'embedded', 'embedded'],
  'on one primary': ['remote', 'remote', 'remote'],
  'with a replica each': ['replica', 'replica', 'replica'],
  'some with a replica, some without': ['remote', 'replica', 'remote'],
};
const CALLERS_PER_SERVER = 2;
/** A hundred uses between two polls, and time left for the servers. */
const USE_EVERY_MS = 2;

export interface Round {
  /** From the revocation's response to the last use anywhere that was a success; negative when there was none after it. */
  readonly lastSuccessMs: number;
  /** Statuses that must not be: other than 200 before, and 401 after. */
  readonly odd: readonly number[];
  /** Uses in all, and those that got 503, which is right on a machine slower than the bound, but must stay rare. */
  readonly uses: number;
  readonly unavailable: number;
}

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
  { servers }: Pick<Cluster, 'servers'>,
  round: number,
  user: string,
): Promise<Round> {
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
  let revokedAtMs = Number.POSITIVE_INFINITY;
  let lastSuccessAtMs = Number.NEGATIVE_INFINITY; // when it was asked for: its response may lie here for a while
  const odd: number[] = [];
  let uses = 0;
  let unavailable = 0;
  const hammer = async (server: { url: string }) => {
    for (;;) {
      const askedAtMs = performance.now();
      const status = await useKey(server, body.key);
      uses += 1;
      if (status === 200) lastSuccessAtMs = Math.max(lastSuccessAtMs, askedAtMs);
      else if (status === 401 && revokedAtMs < Number.POSITIVE_INFINITY) return;
      else if (status === 503) unavailable += 1;
      else if (!(status === 401 && revoking)) odd.push(status);
      await Bun.sleep(USE_EVERY_MS);
    }
  };
  let revoking = false;
  const hammers = servers.flatMap((server) => Array.from({ length: CALLERS_PER_SERVER }, () => hammer(server)));
  await Bun.sleep(30 * Math.random()); // anywhere between two polls
  revoking = true;
  await served(() => end(revoker, body, headers));
  revokedAtMs = performance.now();
  await Promise.all(hammers);
  await call('delete_api_key', { keyId: body.id });
  return { lastSuccessMs: lastSuccessAtMs - revokedAtMs, odd, uses, unavailable };
}
