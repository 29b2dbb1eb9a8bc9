// Start and stop, the same on every runtime: configuration → app → listen → database → signals → banner, and a graceful
// shutdown. What differs between Bun and Deno comes in as `Runtime`.

import { type PreparedService, prepareService, type ServiceOptions } from './app.ts';
import { type Config, parseConfig } from './config/config.ts';
import type { Env } from './config/env.ts';
import { expected } from './config/expected.ts';
import { settingsOf, withoutEffect } from './config/settings-report.ts';
import type { Tls } from './config/tls.ts';
import { type Sha256, systemClock, systemRandom } from './lib/runtime.ts';
import { SERVER_NAME, SERVER_VERSION } from './lib/server-info.ts';
import { reasonOf } from './lib/text.ts';
import type { Log } from './log/log.ts';
import { redact } from './log/redact.ts';
import { addressOf, banner } from './server/banner.ts';
import { type OpenedLog, openLog } from './server/first-line.ts';
import {
  type Listener,
  openListener,
  type RunningServer,
  type ServeOptions,
  whyNotListening,
} from './server/listener.ts';
import { watchLoop } from './server/loop-watch.ts';
import { DRAIN_NOTICE_MS, obeySignals, type Stop, shutDown } from './server/stop.ts';
import { createStrayErrors, type Stray } from './server/stray-errors.ts';
import { tlsRenewal, warnOfCertificate } from './server/tls.ts';
import { DEFAULT_FOLDER, type ImportModule, readToolFolder } from './tools/folder/read-folder.ts';
import { type Own, toolFilesOf } from './tools/folder/tool-file.ts';
import type { OwnNames } from './tools/index.ts';

export interface Runtime {
  readonly name: 'bun' | 'deno';
  /** Whether connections to a port are distributed among the processes that listen on it. */
  readonly sharesPorts: boolean;
  /** Runs a script of package.json. */
  readonly runScript: string;
  /** How a shell names this executable, if it is one. */
  readonly executable?: string | undefined;
  readonly env: Env;
  readonly sha256: Sha256;
  /** Takes a chunk of log lines; resolves when it has left the process. */
  writeOut(chunk: Uint8Array): Promise<void>;
  writeErr(text: string): void;
  serve(options: ServeOptions): RunningServer;
  /** Imports a tool file, for which `mcp-key-server` is tools/folder/module.ts. */
  readonly importTool: ImportModule;
  usage: NonNullable<ServiceOptions['usage']>;
  /** SIGTERM, SIGINT and SIGHUP. */
  onSignal(handler: (signal: string) => void): void;
  /** Rejections and exceptions that nothing handles; without a handler they end the process. */
  onStrayError(handler: (error: unknown, stray: Stray) => void): void;
  exit(code: number): never;
}

/** `own`: tools and resources besides those of the tools folder. */
export async function start(runtime: Runtime, own: Own = {}): Promise<void> {
  const parsed = parseConfig(runtime.env);
  if (!parsed.ok) return fail(runtime, parsed.error);
  const opened = openLog({ level: parsed.value.logLevel, clock: systemClock, write: runtime.writeOut });
  try {
    await run(runtime, parsed.value, own, opened);
  } catch (error) {
    await opened.giveUp(); // its warnings may be the cause
    fail(runtime, [reasonOf(error)]);
  }
}

function fail(runtime: Runtime, lines: readonly string[]): never {
  // A bad value is shown, but no key or token that stands in the wrong variable.
  for (const line of lines) runtime.writeErr(`${SERVER_NAME}: ${redact(line)}\n`);
  return runtime.exit(1);
}

async function run(runtime: Runtime, config: Config, own: Own, { log, begin, giveUp }: OpenedLog): Promise<void> {
  if (config.reusePort && !runtime.sharesPorts) {
    throw new Error(expected('REUSE_PORT', 'to be unset; only Bun on Linux shares a port among processes'));
  }
  const clock = systemClock;
  let ownNames: OwnNames = new Map();
  let stop: Stop = () => void giveUp().then(() => runtime.exit(1));
  // Before any tool file is loaded: it may leave errors behind by then.
  runtime.onStrayError(createStrayErrors({ log, own: () => ownNames, stop: () => stop({ reason: 'a bug' }, 1) }));
  warnOfSettings(runtime, config, log);
  const tls = config.tls && (await import('./config/tls.ts')).readTls(config.tls); // loads node:crypto: 7 ms
  const readFolder = own.tools === undefined || config.toolsDir !== null; // own.tools may come from ./tools
  const inFolder = readFolder ? await readToolFolder(config.toolsDir, runtime.importTool) : null;
  let publicUrl = config.publicUrl ?? '';
  const service = await prepareService(config, {
    clock,
    random: systemRandom,
    sha256: runtime.sha256,
    log,
    publicUrl: () => publicUrl,
    usage: runtime.usage,
    env: runtime.env,
    toolFiles: [...toolFilesOf(own), ...(inFolder ?? [])],
  });
  ownNames = service.own;
  let listening = '';
  const server = await serveAndOpen(runtime, config, tls, service, (port) => {
    listening = addressOf(config, port);
    publicUrl ||= listening + config.basePath;
  });
  stop = obeySignals({
    onSignal: runtime.onSignal,
    exit: runtime.exit,
    fail: (error) => fail(runtime, [String(error)]),
    shutDown: () => shutDown(service, server, log),
    renew: config.tls && tlsRenewal(config.tls, server, DRAIN_NOTICE_MS, log),
    clock,
    log,
  });
  begin({
    version: SERVER_VERSION,
    environment: config.environment,
    store: service.storeMode,
    settings: settingsOf(runtime.env),
    tools: Object.fromEntries(service.own),
  });
  if (tls !== null) await warnOfCertificate(tls, clock, log);
  void service.fetchKeys();
  watchLoop({ clock, log, lastCalled: service.lastCalled });
  runtime.writeErr(
    banner(config, {
      listening,
      publicUrl,
      runScript: runtime.runScript,
      env: runtime.env,
      own: service.own,
      folder: config.toolsDir ?? DEFAULT_FOLDER,
      hasFolder: inFolder !== null,
    }),
  ); // last: its reader may send a signal at once
}

function warnOfSettings({ env, name }: Runtime, config: Config, log: Log): void {
  for (const { variable, reason } of withoutEffect(env, config, name)) {
    log.warn('variable without effect', { variable, reason });
  }
  const { database } = config;
  // In trouble, the replica's native part writes to stdout. It reads RUST_LOG before any of our code runs.
  if (database.mode !== 'remote' || database.replicaFile === null || env.RUST_LOG === 'off') return;
  log.warn('RUST_LOG is not off in the environment: the database driver may write to stdout, between these lines');
}

/**
 * Listens, then opens the database last: a start that fails must not have migrated it, or the version before could not
 * be started again. Requests that arrive meanwhile wait. With a shared port it opens first: no port is in use there,
 * and other processes take the requests.
 */
async function serveAndOpen(
  runtime: Runtime,
  { host, port, reusePort }: Config,
  tls: Tls | null,
  service: PreparedService,
  onListening: (port: number) => void,
): Promise<Listener> {
  if (reusePort) await service.open();
  const opened = Promise.withResolvers<void>();
  let serve: ServeOptions['fetch'] = (request, peer) => opened.promise.then(() => service.app.fetch(request, peer));
  let server: Listener;
  try {
    const fetch: ServeOptions['fetch'] = (request, peer) => serve(request, peer);
    server = openListener(runtime.serve, { hostname: host, port, reusePort, tls, fetch });
  } catch (error) {
    await service.close();
    throw new Error(await whyNotListening(error, host, port));
  }
  onListening(server.port);
  try {
    if (!reusePort) await service.open();
  } catch (error) {
    server.kill();
    throw error;
  }
  serve = service.app.fetch;
  opened.resolve();
  return server;
}
