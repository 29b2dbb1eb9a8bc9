// Callers that create, use and revoke keys on a cluster, remember every response, and afterwards check the cluster against
// them.

import { userHeaders } from '../../support/client.ts';
import { type Cluster, callServer, useKey } from '../../support/cluster.ts';

interface KnownKey {
  readonly id: string;
  readonly key: string;
  /** When its revocation was asked for, and when its success was received. */
  askedToRevokeAtMs: number;
  revokedAtMs: number;
}

interface Counts {
  created: number;
  used: number;
  revoked: number;
  deleted: number;
  unavailable: number;
  /** All callers share an address: its budget of wrong keys, here revoked ones, may be used up for a moment. */
  limited: number;
}

export interface Verdict {
  readonly counts: Readonly<Counts>;
  /** Everything that must not happen, in words. */
  readonly faults: readonly string[];
}

/** At this many the oldest is deleted. Fewer than a user may hold, so that creations of unknown outcome have room. */
const KEYS_A_CALLER = 100;
const NEVER = Number.POSITIVE_INFINITY;

export function startChaos({ servers }: Cluster, callers: number, lagMaxMs: number) {
  let ending = false;
  const faults: string[] = [];
  const counts: Counts = { created: 0, used: 0, revoked: 0, deleted: 0, unavailable: 0, limited: 0 };
  const deleted = new Set<string>();

  async function caller(user: string): Promise<KnownKey[]> {
    const headers = await userHeaders(user);
    const keys: KnownKey[] = [];

    async function create(server: { url: string }): Promise<void> {
      const { status, body } = await callServer(server, 'create_api_key', { name: 'k', scopes: ['read'] }, headers);
      if (status === 200) {
        counts.created += 1;
        keys.push({ id: body.id, key: body.key, askedToRevokeAtMs: NEVER, revokedAtMs: NEVER });
      } else expectUnavailable('create', status);
    }

    async function use(server: { url: string }, known: KnownKey): Promise<void> {
      const askedAtMs = performance.now();
      const status = await useKey(server, known.key);
      counts.used += 1;
      if (status === 200) {
        if (askedAtMs > known.revokedAtMs + lagMaxMs) faults.push('a revoked key was accepted');
      } else if (status === 401) {
        if (known.askedToRevokeAtMs === NEVER) faults.push('a good key was called wrong');
      } else if (status === 429) counts.limited += 1;
      else expectUnavailable('use', status);
    }

    async function revoke(server: { url: string }, known: KnownKey): Promise<void> {
      known.askedToRevokeAtMs = Math.min(known.askedToRevokeAtMs, performance.now());
      const { status } = await callServer(server, 'revoke_api_key', { keyId: known.id }, headers);
      if (status !== 200) return expectUnavailable('revoke', status);
      counts.revoked += 1;
      known.revokedAtMs = Math.min(known.revokedAtMs, performance.now());
      if ((await useKey(server, known.key)) === 200) faults.push('a revoked key was accepted by who revoked it');
    }

    async function remove(server: { url: string }): Promise<void> {
      const known = keys.shift();
      if (known === undefined) return;
      const { status } = await callServer(server, 'delete_api_key', { keyId: known.id }, headers);
      if (status !== 200) return expectUnavailable('delete', status);
      counts.deleted += 1;
      deleted.add(known.id);
      if ((await useKey(server, known.key)) === 200) faults.push('a deleted key was accepted by who deleted it');
    }

    function expectUnavailable(what: string, status: number): void {
      if (status === 503) counts.unavailable += 1;
      else faults.push(`${what} responded ${status}`);
    }

    while (!ending) {
      const server = pick(servers);
      const known = pick(keys);
      const dice = Math.random();
      if (server === undefined) return keys;
      if (keys.length >= KEYS_A_CALLER) await remove(server);
      else if (known === undefined || dice < 0.15) await create(server);
      else await (dice > 0.95 ? revoke(server, known) : use(server, known));
    }
    return keys;
  }

  async function check(user: string, keys: readonly KnownKey[]): Promise<void> {
    const [server] = servers;
    if (server === undefined) return;
    const { status, body } = await callServer(server, 'list_api_keys', {}, await userHeaders(user));
    if (status !== 200) throw new Error(`list_api_keys responded ${status}: ${JSON.stringify(body)}`);
    const stored = new Map<string, { active: boolean }>();
    for (const record of body.keys) {
      if (stored.has(record.id)) faults.push('a key is there twice');
      stored.set(record.id, record);
      if (deleted.has(record.id)) faults.push('an acknowledged deletion is lost');
    }
    for (const { id, revokedAtMs, askedToRevokeAtMs } of keys) {
      const record = stored.get(id);
      if (record === undefined) faults.push('an acknowledged key is lost');
      else if (revokedAtMs < NEVER && record.active) faults.push('an acknowledged revocation is lost');
      else if (askedToRevokeAtMs === NEVER && !record.active) faults.push('a key was revoked by nobody');
    }
  }

  const users = Array.from({ length: callers }, (_, index) => `user-${index}`);
  const running = users.map((user) => caller(user));
  return {
    /** Uses of keys so far that got a response, whatever it was. */
    used: () => counts.used,
    /** Ends the callers, and looks at what is in the store. Everything must be up again. */
    async end(): Promise<Verdict> {
      ending = true;
      const known = await Promise.all(running);
      await Promise.all(users.map((user, index) => check(user, known[index] ?? [])));
      return { counts, faults };
    },
  };
}

const pick = <T>(items: readonly T[]): T | undefined => items[Math.floor(Math.random() * items.length)];
