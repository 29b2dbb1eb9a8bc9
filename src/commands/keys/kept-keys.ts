// Stores what `keys header` keeps between calls, in a file that only its owner can read: for each server a key, open
// requests, and children. A lock lets one call at a time use it.

import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import * as v from 'valibot';
import { sleep } from '../../ground/runtime.ts';
import { CommandError, type IoStreams } from '../io.ts';

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

export type KeptRequest = v.InferOutput<typeof request>;
export type Kept = v.InferOutput<typeof kept>;

/** How long an ended request is kept, so that the next call can say that it has ended. */
const REQUESTS_KEPT_MS = 86_400_000;

/** Longer than any call: an older lock was left by a killed one. */
const LOCK_MS_MAX = 10_000;
const LOCK_WAIT_MS = 2500;
const LOCK_PAUSE_MS = 25;

/** Runs `use` with what is stored for the server, and stores its changes, even if it throws. */
export async function withKept<T>({ env }: IoStreams, server: string, use: (kept: Kept) => Promise<T>): Promise<T> {
  // The server reads neither variable.
  const { XDG_CONFIG_HOME = '', HOME } = env as Readonly<Record<string, string | undefined>>;
  // Relative paths are ignored (XDG Base Directory Specification): `~/.config` would be a folder in this one.
  const configs = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(HOME || homedir(), '.config');
  const folder = join(configs, 'mcp-key-server');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'keys.json');
  return locked(`${path}.lock`, async () => {
    const all = read(path);
    const own = Object.hasOwn(all, server) ? all[server] : undefined;
    const state: Kept = own ?? { requests: {}, children: {} };
    try {
      return await use(state);
    } finally {
      write(path, { ...all, [server]: withoutEnded(state, Date.now()) });
    }
  });
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
  writeFileSync(next, JSON.stringify(all, null, 2), { mode: 0o600, flag: 'wx' });
  renameSync(next, path);
}

async function locked<T>(lock: string, use: () => Promise<T>): Promise<T> {
  for (const untilMs = performance.now() + LOCK_WAIT_MS; !take(lock); ) {
    const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs !== undefined && Date.now() - mtimeMs > LOCK_MS_MAX) rmSync(lock, { force: true });
    if (performance.now() > untilMs) throw new CommandError(`another call is under way (${lock})`);
    await sleep(LOCK_PAUSE_MS);
  }
  try {
    return await use();
  } finally {
    rmSync(lock, { force: true });
  }
}

function take(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600));
    return true;
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
    return false;
  }
}
