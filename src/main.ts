// Starts the server on Bun, with what start/server.ts needs of this runtime.

import { realpathSync } from 'node:fs';
import { basename, delimiter, relative } from 'node:path';
import { quoted } from './config/settings-report.ts';
import { once } from './ground/cache.ts';
import { SERVER_NAME } from './ground/server-info.ts';
import { type Runtime, refuseArgument, type ServeOptions, start } from './start/server.ts';
import type { RunningServer } from './start/stop.ts';

/** Longer than proxies keep idle connections (60 s), so that they close first. */
const IDLE_TIMEOUT_S = 75;
/** A backstop behind the app's own limit, which responds more clearly. */
const REQUEST_BYTES_MAX = 4 * 1024 * 1024;

function serve({ hostname, port, reusePort, tls, fetch }: ServeOptions): RunningServer {
  startFetching();
  const server: Bun.Server<undefined> = Bun.serve({
    hostname,
    port,
    ...(tls && { tls: { cert: tls.cert, key: tls.key } }),
    development: false, // true would show our source in the response to a bug
    reusePort, // always given: with development: false the default is true, and a second server would share the port
    idleTimeout: IDLE_TIMEOUT_S,
    maxRequestBodySize: REQUEST_BYTES_MAX,
    fetch: (request) => fetch(request, connections),
  });
  const connections = {
    address: (request: Request) => server.requestIP(request)?.address ?? null,
    holdOpen: (request: Request, hold: boolean) => server.timeout(request, hold ? 0 : IDLE_TIMEOUT_S),
  };
  return {
    port: server.port ?? port,
    stop: () => server.stop(),
    kill: () => void server.stop(true),
  };
}

/**
 * Starts the thread of `fetch`, with a request that reaches nobody. A first fetch would start it later, and Bun ends the
 * process if it can't, as when connections to the server have taken all descriptors.
 */
const startFetching = () => void fetch('http://localhost', { unix: '/dev/null' }).catch(() => {});

/**
 * Creates a writer. It resolves when the stream has taken everything; what the stream takes at once has left the
 * process on return. Unlike `process.stdout`, it loads no streams of Node.js, which takes milliseconds.
 */
function writerTo(stream: Bun.BunFile) {
  const sink = once(() => stream.writer());
  return async (chunk: string | Uint8Array): Promise<void> => {
    await Promise.all([sink().write(chunk), sink().flush()]);
  };
}

const writeErr = writerTo(Bun.stderr);

/**
 * Registers this server's own module for tool files, so that they need no node_modules. Called before the first is
 * imported.
 */
const provideOwnModule = once(() => {
  const load = async () => ({ loader: 'object', exports: await import('./tools/folder/module.ts') }) as const;
  Bun.plugin({ name: SERVER_NAME, setup: (build) => void build.module(SERVER_NAME, load) });
  return true;
});

/**
 * Returns the command that runs Bun in another terminal. npx has Bun only in its cache, and on the PATH of its child
 * processes.
 */
const bunCommand = (): string => (isOnPath('bun') ? 'bun' : `npx -y bun@${Bun.version}`);

function isOnPath(name: string): boolean {
  const folders = process.env.PATH?.split(delimiter).filter((folder) => !folder.includes('node_modules')) ?? [];
  return Bun.which(name, { PATH: folders.join(delimiter) }) !== null;
}

/** Returns the command of the package, which is on the PATH only if it is installed for all projects. */
function packageCommand(): string {
  if (isOnPath(SERVER_NAME)) return SERVER_NAME;
  return isOnPath('bun') ? `bunx ${SERVER_NAME}` : `${bunCommand()} x ${SERVER_NAME}`;
}

/** Returns the shell command of this executable; undefined if it is Bun itself. */
function executable(): string | undefined {
  if (!Bun.main.startsWith('/$bunfs/')) return undefined;
  const name = basename(process.execPath);
  if (Bun.which(name) === process.execPath) return quoted(name);
  const path = relative(process.cwd(), process.execPath);
  return quoted(path.startsWith('..') ? process.execPath : `./${path}`);
}

/** Whether the server itself ends the process. */
let isEnding = false;

export const runtime: Runtime = {
  sharesPorts: process.platform === 'linux',
  runScript: `${bunCommand()} run`,
  executable: executable(),
  packageCommand,
  env: process.env,
  sha256: Bun.SHA256.hash,
  writeOut: writerTo(Bun.stdout),
  writeErr: (text) => void writeErr(text).catch(() => {}), // nobody reads stderr
  serve,
  async importTool(path) {
    provideOwnModule();
    return import(realpathSync(path)); // Bun remembers where a link led
  },
  forgetTools: async (folder) => (await import('./commands/reloaded-bun.ts')).forgetTools(folder),
  usage() {
    const { user, system } = process.cpuUsage(); // microseconds
    return { residentBytes: process.memoryUsage.rss(), cpuSeconds: (user + system) / 1e6 };
  },
  onSignal(handler) {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, handler);
  },
  onExit(handler) {
    const failed = () => {
      if (isEnding) return;
      process.exitCode = 1;
      handler();
    };
    process.once('exit', failed);
    return () => void process.off('exit', failed);
  },
  onStrayError(handler) {
    process.on('unhandledRejection', handler);
    process.on('uncaughtException', handler);
  },
  exit(code) {
    isEnding = true;
    return process.exit(code);
  },
};

if (import.meta.main) {
  refuseArgument(runtime, process.argv[2]);
  void start(runtime);
}
