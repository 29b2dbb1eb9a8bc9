// A user of a model-based test: creates, uses, lists, revokes and deletes keys in a random order over one transport, and
// holds every response against what it remembers. Outlives the server: after a crash it knows what must still be true.

import { userHeaders } from './client.ts';
import { type CallTool, type Outcome, WrongResponse } from './transports.ts';

/** What a key is. A step whose outcome is unknown (`attempted`) may have been taken or not. */
type State = 'active' | 'revoked' | 'deleted';

interface OwnKey {
  readonly id: string;
  readonly key: string;
  acknowledged: State;
  attempted: State | null;
  /** When its last successful use began; 0: never. */
  usedAtMs: number;
}

interface ListedKey {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly active: boolean;
  readonly lastUsedAt?: number;
}

export type ModelUser = Awaited<ReturnType<typeof createModelUser>>;

const KEYS_MAX = 12;
/** A user may list 20 times a second. */
const LIST_EVERY_MS = 60;
const SCOPES = ['read', 'write:orders'];

/** `random`: 0 to 1. */
export async function createModelUser(name: string, firstTransport: CallTool, random: () => number) {
  const headers = await userHeaders(name);
  const keys = new Map<string, OwnKey>();
  let callTool = firstTransport;
  /** Creations without a response: each may have left a key whose id nobody knows. */
  let untold = 0;
  let answered = 0;
  let listedAtMs = Number.NEGATIVE_INFINITY;

  function expectOk(outcome: Outcome, what: string) {
    if (outcome.kind === 'refused') throw new WrongResponse(`${what} was refused`);
    if (outcome.kind === 'ok') answered += 1;
    return outcome.kind === 'ok' ? outcome.output : null;
  }

  async function create(): Promise<boolean> {
    untold += 1;
    const made = expectOk(await callTool('create_api_key', { name, scopes: SCOPES }, headers), 'create');
    if (made === null) return false;
    untold -= 1;
    if (made.name !== name || keys.has(made.id)) throw new WrongResponse(`created ${JSON.stringify(made)}`);
    keys.set(made.id, { id: made.id, key: made.key, acknowledged: 'active', attempted: null, usedAtMs: 0 });
    return true;
  }

  async function end(own: OwnKey, state: 'revoked' | 'deleted'): Promise<boolean> {
    own.attempted = state;
    const tool = state === 'revoked' ? 'revoke_api_key' : 'delete_api_key';
    const done = expectOk(await callTool(tool, { keyId: own.id }, headers), tool);
    if (done === null) return false;
    own.acknowledged = state;
    own.attempted = null;
    return true;
  }

  async function use(own: OwnKey): Promise<boolean> {
    const beganMs = Date.now();
    const outcome = await callTool('get_data', {}, { 'x-api-key': own.key });
    if (outcome.kind === 'later') return false;
    answered += 1;
    if (own.attempted !== null) return true; // either is right
    if ((outcome.kind === 'ok') !== (own.acknowledged === 'active'))
      throw new WrongResponse(`a key that is ${own.acknowledged}: ${outcome.kind}`);
    if (outcome.kind === 'ok') {
      if (outcome.output.owner !== name || outcome.output.key.id !== own.id)
        throw new WrongResponse(`get_data responded ${JSON.stringify(outcome.output)}`);
      own.usedAtMs = beganMs;
    }
    return true;
  }

  async function list(after?: 'crash' | 'stop'): Promise<boolean> {
    const output = expectOk(await callTool('list_api_keys', {}, headers), 'list');
    if (output === null) return false;
    const found = new Map<string, ListedKey>(output.keys.map((key: ListedKey) => [key.id, key]));
    for (const own of keys.values()) {
      compare(own, found.get(own.id), after);
      found.delete(own.id);
    }
    for (const key of found.values()) {
      const whole = key.active && key.name === name && key.scopes.join() === SCOPES.join();
      if (!whole) throw new WrongResponse(`half a key: ${JSON.stringify(key)}`);
    }
    if (found.size > (after === 'stop' ? 0 : untold)) throw new WrongResponse(`${found.size} keys nobody was told of`);
    if (after === undefined) return true;
    for (const id of found.keys()) expectOk(await callTool('delete_api_key', { keyId: id }, headers), 'delete');
    untold = 0;
    return true;
  }

  function compare(own: OwnKey, key: ListedKey | undefined, after?: 'crash' | 'stop'): void {
    const state: State = key === undefined ? 'deleted' : key.active ? 'active' : 'revoked';
    const maybe = after === 'stop' ? null : own.attempted;
    if (state !== own.acknowledged && state !== maybe)
      throw new WrongResponse(`${own.id} is ${state}, not ${own.acknowledged}`);
    if (key !== undefined && after !== 'crash' && (key.lastUsedAt ?? 0) < own.usedAtMs)
      throw new WrongResponse(`${own.id}: lastUsedAt ${key.lastUsedAt} is before ${own.usedAtMs}`);
    if (after === undefined) return;
    own.acknowledged = state;
    own.attempted = null;
    own.usedAtMs = key?.lastUsedAt ?? 0;
  }

  const some = (): OwnKey | undefined => [...keys.values()][Math.floor(random() * keys.size)];

  /** One operation. False when the server asked to come back later. Throws WrongResponse, and what the network throws. */
  async function step(): Promise<boolean> {
    const own = some();
    const dice = random();
    if (own === undefined || dice < 0.15) {
      const oldest = keys.size >= KEYS_MAX ? keys.values().next().value : undefined;
      if (oldest === undefined) return create();
      const done = oldest.acknowledged === 'deleted' || (await end(oldest, 'deleted'));
      if (done) keys.delete(oldest.id);
      return done;
    }
    if (dice < 0.25 && own.acknowledged === 'active') return end(own, 'revoked');
    if (dice < 0.3 && own.acknowledged !== 'deleted') return end(own, 'deleted');
    if (dice >= 0.4 || performance.now() - listedAtMs < LIST_EVERY_MS) return use(own);
    listedAtMs = performance.now();
    return list();
  }

  return {
    step,
    /**
     * One step after the other until the network fails or a response is wrong. Resolves to what was wrong; null if it was
     * only the network, and the server was `gone`.
     */
    async workUntilGone(gone: () => boolean): Promise<unknown> {
      try {
        for (;;) await step();
      } catch (error) {
        return gone() && !(error instanceof WrongResponse) ? null : error;
      }
    },
    /**
     * Goes on with the server's next process, after checking that what was acknowledged is there. After a crash, steps
     * without a response may have been taken and last uses lost; after an orderly stop, neither.
     */
    async moveTo(next: CallTool, after: 'crash' | 'stop') {
      callTool = next;
      if (!(await list(after))) throw new Error('the server is not ready');
      for (const own of keys.values()) await use(own);
    },
    /** Operations that were answered. */
    get answered() {
      return answered;
    },
  };
}

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
