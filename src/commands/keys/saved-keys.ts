// Stores what `keys header` keeps between calls, in a file that only its owner can read: for each server a key, open
// requests, and children. Nobody waits for another server: only one call for a server asks it for something, and the
// file is locked no longer than a change takes.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { isAbsolute, join } from 'node:path';
import * as v from 'valibot';
import type { Awaitable } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { CommandError, type IoStreams } from '../io.ts';
import { isRunning } from './private-folder.ts';

const request = v.object({
  deviceCode: v.string(),
  userCode: v.string(),
  uri: v.string(),
  endsAtMs: v.number(),
});
const child = v.object({ key: v.string(), madeAtMs: v.number(), endsAtMs: v.number() });

/** What is stored for one server. Requests and children are keyed by what was requested. */
const kept = v.object({
  key: v.optional(v.string()),
  requests: v.optional(v.record(v.string(), request), {}),
  children: v.optional(v.record(v.string(), child), {}),
});

const file = v.record(v.string(), kept);

export type Kept = v.InferOutput<typeof kept>;

export type KeptKeys = ReturnType<typeof openKept>;

/** How long an ended request is kept, so that the next call can say that it has ended. */
const REQUESTS_KEPT_MS = 86_400_000;

const LOCK_PAUSE_MS = 25;

/** Opens what is stored for the server. `signal` ends waiting for other calls. */
export function openKept({ env }: IoStreams, server: string, signal: AbortSignal) {
  // The server reads neither variable.
  const { XDG_CONFIG_HOME = '', HOME } = env as Readonly<Record<string, string | undefined>>;
  // Relative paths are ignored (XDG Base Directory Specification): `~/.config` would be a folder in this one.
  const configs = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(HOME || homeBySystem(), '.config');
  const folder = join(configs, 'mcp-key-server');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'keys.json');
  const ofServer = `${path}.lock-${createHash('sha256').update(server).digest('hex').slice(0, 16)}`;

  function readOf(all: v.InferOutput<typeof file>): Kept {
    const own = Object.hasOwn(all, server) ? all[server] : undefined;
    return own ?? { requests: {}, children: {} };
  }

  async function locked<T>(lock: string, found: () => T | undefined, use: () => Awaitable<T>): Promise<T> {
    while (!take(lock)) {
      const other = found();
      if (other !== undefined) return other;
      if (signal.aborted) throw new CommandError(`another call is under way (${lock})`);
      await sleep(LOCK_PAUSE_MS);
    }
    try {
      return found() ?? (await use());
    } finally {
      rmSync(lock, { force: true });
    }
  }

  return {
    read: () => readOf(read(path)),
    change: (edit: (kept: Kept) => void) =>
      locked<void>(
        `${path}.lock`,
        () => undefined,
        () => {
          const all = read(path);
          const own = readOf(all);
          edit(own);
          write(path, { ...all, [server]: withoutEnded(own, Date.now()) });
        },
      ),
    /**
     * Runs `use` while no other call does for this server. Returns what `found` does instead, once it finds something:
     * another call may have got it meanwhile. Throws a CommandError when the time is over.
     */
    alone: <T>(found: () => T | undefined, use: () => Promise<T>) => locked(ofServer, found, use),
  };
}

/** Returns the user's home without HOME. Throws a CommandError if there is none, as of a user without a name. */
function homeBySystem(): string {
  let home: string | null = null; // which Deno returns, and for which Bun throws an error
  try {
    home = homedir();
  } catch {}
  if (home) return home;
  throw new CommandError('HOME: expected the folder of the user, in which the key is kept, but it is not set');
}

/** Removes what has ended: each name has its own child, and may be that of one job. */
const withoutEnded = ({ key, requests, children }: Kept, nowMs: number): Kept => ({
  key,
  requests: endingAfter(nowMs - REQUESTS_KEPT_MS, requests),
  children: endingAfter(nowMs, children),
});

const endingAfter = <T extends { readonly endsAtMs: number }>(ms: number, all: Readonly<Record<string, T>>) =>
  Object.fromEntries(Object.entries(all).filter(([, { endsAtMs }]) => endsAtMs > ms));

function read(path: string): v.InferOutput<typeof file> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return {};
  try {
    return v.parse(file, JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new CommandError(`${path} can't be read: remove it, and ask again`);
  }
}

/** Writes a new file and renames it over the old one, so that concurrent readers find one of the two. */
function write(path: string, all: v.InferOutput<typeof file>): void {
  const next = `${path}.${process.pid}`;
  rmSync(next, { force: true });
  create(next, JSON.stringify(all, null, 2));
  renameSync(next, path);
}

/** Writes a new file that only its owner can read. Leaves none that a full disk has no room for. */
function create(path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') rmSync(path, { force: true });
    throw error;
  }
}

/** Longer than any call: an older lock was left by a killed one, perhaps on another machine. */
const LOCK_MS_MAX = 10_000;

/** Takes a lock, which names the machine and process that hold it. Returns false if another call holds it. */
function take(lock: string): boolean {
  if (isLeft(lock)) rmSync(lock, { force: true });
  try {
    create(lock, `${hostname()} ${process.pid}`);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return false;
  }
}

/** Returns whether a killed call has left the lock. */
function isLeft(lock: string): boolean {
  try {
    if (Date.now() - statSync(lock).mtimeMs > LOCK_MS_MAX) return true;
    const [host, pid] = readFileSync(lock, 'utf8').split(' ');
    return host === hostname() && pid !== undefined && !isRunning(Number(pid));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;
