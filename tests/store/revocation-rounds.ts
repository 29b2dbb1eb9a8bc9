// How long a revoked key lives on: it is used all the time on every server of a fleet while one of them revokes it.

import { userHeaders } from '../support/client.ts';
import { callServer, type Fleet, useKey } from '../support/fleet.ts';
import type { StoreMode } from '../support/store-mode.ts';

export const FLEETS: Readonly<Record<string, readonly StoreMode[]>> = {
  'on one file': ['embedded', 'embedded', 'embedded'],
  'on one primary': ['remote', 'remote', 'remote'],
  'with a replica each': ['replica', 'replica', 'replica'],
  'some with a replica, some without': ['remote', 'replica', 'remote'],
};
const CALLERS_PER_SERVER = 2;

export interface Round {
  /** From the revocation's answer to the last success anywhere; negative when there was none after it. */
  readonly lastSuccessMs: number;
  /** Statuses that must not be: other than 200 before, and 401 after. */
  readonly odd: readonly number[];
  /** Uses in all, and those answered 503, which is right on a machine slower than the bound, but must stay rare. */
  readonly uses: number;
  readonly unavailable: number;
}

/** One key: made on one server, revoked on the next, used on all until everybody refuses it. */
export async function revocationRound({ servers }: Fleet, round: number, user: string): Promise<Round> {
  const maker = servers[round % servers.length];
  const revoker = servers[(round + 1) % servers.length];
  if (maker === undefined || revoker === undefined) throw new Error('a fleet without servers');
  const headers = await userHeaders(user);
  const { body } = await callServer(maker, 'create_api_key', { name: 'hammered', scopes: ['read'] }, headers);
  let revokedAtMs = Number.POSITIVE_INFINITY;
  let lastSuccessAtMs = Number.NEGATIVE_INFINITY;
  const odd: number[] = [];
  let uses = 0;
  let unavailable = 0;
  const hammer = async (server: { url: string }) => {
    for (;;) {
      const status = await useKey(server, body.key);
      uses += 1;
      if (status === 200) lastSuccessAtMs = Math.max(lastSuccessAtMs, performance.now());
      else if (status === 401 && revokedAtMs < Number.POSITIVE_INFINITY) return;
      else if (status === 503) unavailable += 1;
      else if (!(status === 401 && revoking)) odd.push(status);
    }
  };
  let revoking = false;
  const hammers = servers.flatMap((server) => Array.from({ length: CALLERS_PER_SERVER }, () => hammer(server)));
  await Bun.sleep(30 * Math.random()); // anywhere between two polls
  revoking = true;
  await callServer(revoker, 'revoke_api_key', { keyId: body.id }, headers);
  revokedAtMs = performance.now();
  await Promise.all(hammers);
  await callServer(maker, 'delete_api_key', { keyId: body.id }, headers);
  return { lastSuccessMs: lastSuccessAtMs - revokedAtMs, odd, uses, unavailable };
}
