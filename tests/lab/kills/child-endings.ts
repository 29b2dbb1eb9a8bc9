// How long a child lives on that has ended: it is used all the time on both servers of a cluster, while it ends in one of
// eleven ways.

import { exchange } from '../../support/children.ts';
import { userHeaders } from '../../support/client.ts';
import { type Cluster, callServer, operatorOf, served, useKey } from '../../support/cluster.ts';
import type { TestResponse } from '../../support/test-app.ts';
import { type Used, usedWhile } from './used-while.ts';

const USE_EVERY_MS = 10;
/** The life of a parent that expires: enough for a machine that does other things too. */
const LEFT_MS = 4000;
const OVERLAP_MS = 1500;

interface Key {
  readonly id: string;
  readonly key: string;
}

/** A parent with a child, and what may be done to them. */
interface Pair {
  readonly parent: Key & { readonly expiresAt: number | null };
  readonly child: Key;
  readonly owner: string;
  readonly url: string;
  call(tool: string, input: object): Promise<TestResponse>;
  keys(...args: string[]): Promise<string>;
  shell(sql: string): Promise<void>;
}

/** How a child ends. Resolves once that is acknowledged; with a number: when it will be, by performance.now(). */
type Ending = (pair: Pair) => Promise<unknown>;

const ENDINGS: Readonly<Record<string, Ending>> = {
  revoked: ({ call, parent }) => call('revoke_api_key', { keyId: parent.id }),
  deleted: ({ call, parent }) => call('delete_api_key', { keyId: parent.id }),
  narrowed: ({ keys, parent }) => keys('update', parent.id, '--scope', 'read'),
  blocked: ({ keys, owner }) => keys('block', owner, '--yes'),
  expired: async ({ parent }) => performance.now() + (parent.expiresAt ?? 0) - Date.now(),
  'rotated at once': ({ call, parent }) => call('rotate_api_key', { keyId: parent.id, overlapHours: 0 }),
  /** An hour of which a shell leaves a moment. */
  async 'rotated, with an overlap'({ call, parent, url, shell }) {
    const { body } = await call('rotate_api_key', { keyId: parent.id, overlapHours: 1 });
    await served(async () => ({ status: await useKey({ url }, body.key) })); // the overlap begins
    const [endsAtMs, endsAt] = [performance.now() + OVERLAP_MS, Date.now() + OVERLAP_MS];
    await shell(`UPDATE api_keys SET second_ends_at_ms = ${endsAt} WHERE id = '${parent.id}'`);
    return endsAtMs;
  },
  'by possession': ({ url, parent }) =>
    served(() => fetch(`${url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: parent.key }) })),
  'by command': ({ keys, parent }) => keys('revoke', parent.id, '--yes'),
  'by database shell': ({ shell, parent }) => shell(`UPDATE api_keys SET active = 0 WHERE id = '${parent.id}'`),
  'the child alone': ({ call, child }) => call('revoke_api_key', { keyId: child.id }),
};

export interface Ended extends Used {
  readonly how: string;
}

/** Makes a parent and a child for each ending, at one of the servers, and ends them, at the other if `round` is odd. */
export const childEndings = (cluster: Cluster, round: number): Promise<Ended[]> =>
  Promise.all(Object.entries(ENDINGS).map(([how, end]) => ended(cluster, round, how, end)));

async function ended(cluster: Cluster, round: number, how: string, end: Ending): Promise<Ended> {
  const { servers } = cluster;
  const [maker, ender] = [servers[0], servers[round % servers.length]];
  if (maker === undefined || ender === undefined) throw new Error('a cluster without servers');
  const owner = `${how} ${round}`;
  const pair = await makePair(cluster, maker.url, ender.url, owner, how);
  const pace = { callers: 1, everyMs: USE_EVERY_MS, beforeMs: 300 + 300 * Math.random() }; // between two polls
  return { how, ...(await usedWhile(servers, pair.child.key, () => end(pair), pace)) };
}

async function makePair(cluster: Cluster, makeAt: string, endAt: string, owner: string, how: string) {
  const headers = await userHeaders(owner);
  const wanted = {
    name: 'parent',
    scopes: ['read', 'delegate'],
    ...(how === 'expired' && { expiresInDays: LEFT_MS / 86_400_000 }),
  };
  const { body: parent } = await served(() => callServer({ url: makeAt }, 'create_api_key', wanted, headers));
  const { body: made } = await served(() => exchange({ url: makeAt }, parent.key));
  const child = { id: made.key_id, key: made.access_token };
  return {
    parent,
    child,
    owner,
    url: endAt,
    call: (tool: string, input: object) => served(() => callServer({ url: endAt }, tool, input, headers)),
    ...operatorOf(cluster),
  };
}
