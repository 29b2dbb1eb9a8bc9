// Servers on one database behind one address, and a service that checks keys from memory: which ways of ending a key
// there are, and how long after one was acknowledged the service still lets somebody in.

import { expect } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from './client.ts';
import { served } from './cluster.ts';
import { diskFolder } from './folder.ts';
import { keysOutput } from './keys-command.ts';
import { type Runtime, startServer } from './server-process.ts';
import { type StoreMode, startStore, type TestStore } from './store-mode.ts';
import { TEST_SECRET } from './test-app.ts';

export interface MadeKey {
  readonly id: string;
  readonly key: string;
  readonly owner: string;
}

export type Servers = Awaited<ReturnType<typeof startServers>>;

export type Between = (path: string, passOn: () => Promise<Response>) => Promise<Response>;

const ADMIN = { roles: ['keys-admin'] };

/** Deno may write no replica on the memory disk. */
function envOn(store: TestStore): Record<string, string> {
  const env = store.env();
  return 'DATABASE_REPLICA_FILE' in env ? { ...env, DATABASE_REPLICA_FILE: join(diskFolder(), 'replica.db') } : env;
}

/** One server for each runtime named, on one store of a kind. */
export async function startServers(mode: StoreMode, runtimes: readonly Runtime[], env: Record<string, string> = {}) {
  const store = await startStore(mode, diskFolder());
  const all = { JWT_SECRET: TEST_SECRET, ADMIN_CLAIM: 'roles=keys-admin', LOG_LEVEL: 'warn', ...env };
  const servers = await Promise.all(
    runtimes.map((runtime) => startServer({ runtime, env: { ...envOn(store), ...all } })),
  );
  /** Runs `keys <verb> …` on the database. Returns what it prints. */
  const keys = (...args: string[]): Promise<string> => keysOutput({ ...store.env(), ...all }, args);
  const proxy = {
    /** What is between the service and a server: passes a request on, or responds itself; null: nothing is. */
    between: null as Between | null,
    /** How often each path was asked for. */
    asked: new Map<string, number>(),
  };
  let turn = 0;
  const front = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0, // some responses are held up, for as long as a machine takes
    async fetch(request) {
      const { pathname } = new URL(request.url);
      proxy.asked.set(pathname, (proxy.asked.get(pathname) ?? 0) + 1);
      const { headers, method, signal } = request;
      const body = await request.arrayBuffer();
      const passOn = () => {
        turn += 1;
        const passedOn = fetch(`${servers[turn % servers.length]?.url}${pathname}`, { method, headers, body, signal });
        return passedOn.catch(() => new Response(null, { status: 502 })); // that server has been killed
      };
      return proxy.between === null ? passOn() : proxy.between(pathname, passOn);
    },
  });
  return Object.assign(proxy, {
    servers,
    questions: (): number => proxy.asked.get('/introspect') ?? 0,
    /** Passes each request on to the next server in turn. */
    url: `http://127.0.0.1:${front.port}`,
    async createKey(owner: string, scopes: readonly string[] = ['read'], input: object = {}): Promise<MadeKey> {
      const headers = await userHeaders(owner);
      const made = await served(() =>
        callOver(servers[0]?.url ?? '', 'create_api_key', { name: 'a key', scopes, ...input }, headers),
      );
      return { ...made.body, owner };
    },
    keys,
    /** The units of today of each key of an owner that was used, by the key's id, as the database has them. */
    async usesOf(owner: string): Promise<Record<string, number>> {
      const lines = (await keys('list', '--user', owner, '--json')).split('\n').filter(Boolean);
      const listed = lines.map((line) => JSON.parse(line)).filter(({ uses }) => uses?.today > 0);
      return Object.fromEntries(listed.map(({ id, uses }) => [id, uses.today]).sort());
    },
    async [Symbol.asyncDispose]() {
      front.stop(true);
      await Promise.all(servers.map((one) => one.kill()));
      await store[Symbol.asyncDispose]();
    },
  });
}

/** How a key ends at the first server. Each resolves when that is acknowledged. */
export const ENDINGS: Readonly<Record<string, (at: Servers, made: MadeKey) => Promise<unknown>>> = {
  revoked: (at, made) => asOwner(at, made, 'revoke_api_key'),
  deleted: (at, made) => asOwner(at, made, 'delete_api_key'),
  'rotated at once': (at, made) => asOwner(at, made, 'rotate_api_key', { overlapHours: 0 }),
  'ended by possession': async ({ servers }, { key }) => {
    const body = new URLSearchParams({ token: key });
    const { status } = await served(() => fetch(`${servers[0]?.url}/revoke`, { method: 'POST', body }));
    if (status !== 200) throw new Error(`/revoke responded ${status}`);
  },
  narrowed: (at, { id }) => at.keys('update', id, '--scope', 'other'),
  'of a blocked owner': (at, { owner }) => at.keys('block', owner),
  'of an owner whom an admin blocks': async (at, { owner }) =>
    callTool(at, 'admin_update_owner', { owner, blocked: true }, await userHeaders('admin', TEST_SECRET, ADMIN)),
};

const asOwner = async (at: Servers, { id, owner }: MadeKey, tool: string, input = {}): Promise<void> =>
  callTool(at, tool, { keyId: id, ...input }, await userHeaders(owner));

async function callTool({ servers }: Servers, tool: string, input: object, headers: Record<string, string>) {
  const { status } = await served(() => callOver(servers[0]?.url ?? '', tool, input, headers));
  if (status !== 200) throw new Error(`${tool} responded ${status}`);
}

/** Checks until the answer isn't 503, which is right on a machine that is slower than the bound. Returns it. */
export async function decided<R extends { readonly ok: boolean; readonly status?: number }>(check: () => Promise<R>) {
  for (;;) {
    const result = await check();
    if (result.ok || result.status !== 503) return result;
    await Bun.sleep(50);
  }
}

/** Checks what is let in until no check is a question any more. */
export async function remembered(at: Servers, check: () => Promise<{ readonly ok: boolean }>): Promise<void> {
  for (let before = -1; before < at.questions(); await Bun.sleep(20)) {
    before = at.questions();
    expect((await check()).ok).toBe(true);
  }
}

/** Until it lets nobody in, and a while longer: how long after `end` was acknowledged it last did, in ms. */
export async function lastYesAfter(
  end: () => Promise<unknown>,
  letsIn: () => Promise<boolean>,
  forMs = 1500,
): Promise<number> {
  let endedAtMs = Number.POSITIVE_INFINITY;
  let lastMs = 0;
  void end().then(() => {
    endedAtMs = performance.now();
  });
  while (performance.now() < endedAtMs + forMs) {
    const askedAtMs = performance.now(); // what a busy machine takes for the answer is not the check's
    if (await letsIn()) lastMs = askedAtMs;
    await Bun.sleep(2);
  }
  return lastMs - endedAtMs;
}

/**
 * Ends a key in each way, all at once. Returns those that were let in later than `boundMs` after their end was
 * acknowledged, with how much later.
 */
export async function lateEndings(
  at: Servers,
  boundMs: number,
  letsIn: (key: string) => Promise<boolean>,
): Promise<[how: string, lastMs: number][]> {
  const last = Object.entries(ENDINGS).map(async ([how, end]): Promise<[string, number]> => {
    const made = await at.createKey(`${how} ${Math.random()}`);
    const isIn = () => letsIn(made.key);
    while (!(await isIn())) await Bun.sleep(10);
    return [how, await lastYesAfter(() => end(at, made), isIn, 1200)];
  });
  return (await Promise.all(last)).filter(([, lastMs]) => lastMs > boundMs);
}
