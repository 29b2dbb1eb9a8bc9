// Start and stop, the same on every runtime: configuration → app → listen → database → signals → banner, and a graceful shutdown.
// What differs between Bun and Deno comes in as `Runtime`.

import { type PreparedService, prepareService, type Service } from './app.ts';
import { type Config, parseConfig } from './config/config.ts';
import type { Env } from './config/env.ts';
import { expected } from './config/expected.ts';
import { settingsOf, withoutEffect } from './config/report.ts';
import type { Tls } from './config/tls.ts';
import { type Clock, type Sha256, systemClock, systemRandom } from './lib/runtime.ts';
import { SERVER_NAME, SERVER_VERSION } from './lib/server-info.ts';
import { reasonOf } from './lib/text.ts';
import { sleep, withTimeout } from './lib/timeout.ts';
import { createLog, type Log, type LogFields } from './log/log.ts';
import { redact } from './log/redact.ts';
import { addressOf, banner } from './server/banner.ts';
import {
  type Listener,
  openListener,
  type RunningServer,
  type ServeOptions,
  whyNotListening,
} from './server/listener.ts';
import { watchLoop } from './server/loop-watch.ts';
import { tlsRenewal } from './server/renewal.ts';
import { createStrayErrors, type Stray } from './server/stray-errors.ts';
import type { ProcessUsage } from './telemetry/gauges.ts';
import { DEFAULT_FOLDER, type ImportModule, readToolFolder } from './tools/folder/folder.ts';
import { type Own, toolFilesOf } from './tools/folder/tool-file.ts';

/** What a runtime provides. */
export interface Runtime {
  readonly name: 'bun' | 'deno';
  /** Whether connections to a port are distributed among the processes that listen on it. */
  readonly sharesPorts: boolean;
  /** What runs a script of package.json here. */
  readonly runScript: string;
  /** How a shell names the executable that this is, if it is one. */
  readonly executable?: string | undefined;
  readonly env: Env;
  readonly sha256: Sha256;
  /** Takes a chunk of log lines; resolves when it has left the process. */
  writeOut(chunk: Uint8Array): Promise<void>;
  writeErr(text: string): void;
  serve(options: ServeOptions): RunningServer;
  /** Imports a tool file, for which `mcp-key-server` is this server's own module (authoring.ts). */
  readonly importTool: ImportModule;
  usage(): ProcessUsage;
  /** SIGTERM, SIGINT and SIGHUP. */
  onSignal(handler: (signal: string) => void): void;
  /** Rejections and exceptions that reach nobody; without a handler they end the process. */
  onStrayError(handler: (error: unknown, stray: Stray) => void): void;
  exit(code: number): never;
}

/**
 * Responses say `Connection: close` for this long before the listener closes, so that keep-alive clients reconnect
 * elsewhere.
 */
const DRAIN_NOTICE_MS = 300;

/**
 * In the last part of it responses wait. A client that waits for one sends nothing, and a process that does nothing
 * else reads what comes at once: so hardly any request is on its way when the socket is closed, which would reset it.
 */
const HOLD_MS = 50;

/** Requests may take this long to finish after that. */
const DRAIN_MS_MAX = 10_000;

/** Time to flush a response after its handler returned. */
const RESPONSE_FLUSH_MS_MAX = 1000;

/** Time to flush the log: a reader that does not read must not keep the process alive. */
const LOG_FLUSH_MS_MAX = 1000;

/** Under a package runner one Ctrl-C arrives twice. Only a second signal that comes this much later means "now". */
const SECOND_SIGNAL_AFTER_MS = 1000;

/** `own`: tools and resources besides those of the tools folder. */
export async function start(runtime: Runtime, own: Own = {}): Promise<void> {
  const parsed = parseConfig(runtime.env);
  if (!parsed.ok) return fail(runtime, parsed.error);
  const opened = openLog(runtime, parsed.value, systemClock);
  try {
    await run(runtime, parsed.value, own, opened);
  } catch (error) {
    await opened.giveUp(); // what was warned of before may be why
    fail(runtime, [reasonOf(error)]);
  }
}

function fail(runtime: Runtime, lines: readonly string[]): never {
  // A bad value is shown, but not a key or token that stands in the wrong variable.
  for (const line of lines) runtime.writeErr(`${SERVER_NAME}: ${redact(line)}\n`);
  return runtime.exit(1);
}

/** Configuration → app → listen → database → signals → banner. */
async function run(runtime: Runtime, config: Config, own: Own, { log, begin }: OpenedLog): Promise<void> {
  if (config.reusePort && !runtime.sharesPorts) {
    throw new Error(expected('REUSE_PORT', 'to be unset; only Bun on Linux shares a port among processes'));
  }
  const clock = systemClock;
  warnOfSettings(runtime, config, log);
  const tls = config.tls && (await import('./config/tls.ts')).readTls(config.tls); // loads node:crypto: 7 ms
  const readFolder = own.tools === undefined || config.toolsDir !== null; // ./tools may be where own.tools come from
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
  let listening = '';
  const server = await serveAndOpen(runtime, config, tls, service, (port) => {
    listening = addressOf(config, port);
    publicUrl ||= listening + config.basePath;
  });
  const stop = obeySignals(runtime, clock, log, {
    stop: () => shutDown(service, server, log),
    renew: config.tls && tlsRenewal(config.tls, server, DRAIN_NOTICE_MS, log),
  });
  runtime.onStrayError(createStrayErrors({ log, own: service.own, stop: () => stop({ reason: 'a bug' }, 1) }));
  const { env, runScript } = runtime;
  const { environment } = config;
  begin({
    version: SERVER_VERSION,
    environment,
    store: service.storeMode,
    settings: settingsOf(env),
    tools: Object.fromEntries(service.own),
  });
  if (tls !== null) (await import('./server/certificate.ts')).warnOfCertificate(tls, clock, log);
  void service.fetchKeys();
  watchLoop({ clock, log, lastCalled: service.lastCalled });
  runtime.writeErr(
    banner(config, {
      listening,
      publicUrl,
      runScript,
      env,
      own: service.own,
      folder: config.toolsDir ?? DEFAULT_FOLDER,
      hasFolder: inFolder !== null,
    }),
  ); // last: its reader may send a signal at once
}

interface OpenedLog {
  readonly log: Log;
  /** Writes the first line, which is known last: until then the others wait. */
  begin(fields: LogFields): void;
  /** Writes those that wait, because there will be no first line. */
  giveUp(): Promise<void>;
}

function openLog({ writeOut }: Runtime, { logLevel: level }: Config, clock: Clock): OpenedLog {
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const log = createLog({ level, clock, write: (chunk) => begun.then(() => writeOut(chunk)) });
  const begin = (fields: LogFields) => {
    const first = createLog({ level, clock, write: writeOut });
    first.info('started', fields);
    resolve(first.flush());
  };
  const giveUp = () => {
    resolve();
    return flushed(log);
  };
  return { log, begin, giveUp };
}

const flushed = (log: Log): Promise<void> => withTimeout(log.flush(), LOG_FLUSH_MS_MAX, undefined);

function warnOfSettings({ env, name }: Runtime, config: Config, log: Log): void {
  for (const { variable, reason } of withoutEffect(env, config, name)) {
    log.warn('variable without effect', { variable, reason });
  }
  const { database } = config;
  // When in trouble, the replica's native part writes to stdout. It reads RUST_LOG before any of our code runs.
  if (database.mode !== 'remote' || database.replicaFile === null || env.RUST_LOG === 'off') return;
  log.warn('RUST_LOG is not off in the environment: the database driver may write to stdout, between these lines');
}

interface SignalActions {
  stop(): Promise<void>;
  /** Null: there is nothing to renew, and SIGHUP stops. */
  readonly renew: (() => Promise<void>) | null;
}

/** Begins to stop, unless that has begun; the process ends with `code`. */
type Stop = (why: LogFields, code: number) => void;

/** The first signal begins to stop; a second one, later, ends the process at once. With own TLS, SIGHUP renews it. */
function obeySignals(runtime: Runtime, clock: Clock, log: Log, { stop, renew }: SignalActions): Stop {
  let stoppingSinceMs: number | undefined;
  const begin: Stop = (why, code) => {
    if (stoppingSinceMs !== undefined) return;
    stoppingSinceMs = clock.monotonicMs();
    log.info('stopping', why);
    void stop().then(
      () => runtime.exit(code),
      (error) => fail(runtime, [String(error)]),
    );
  };
  runtime.onSignal((signal) => {
    if (signal === 'SIGHUP' && renew !== null) {
      if (stoppingSinceMs === undefined) void renew().catch((error) => fail(runtime, [String(error)]));
      return;
    }
    if (stoppingSinceMs === undefined) begin({ signal }, 0);
    else if (clock.monotonicMs() - stoppingSinceMs >= SECOND_SIGNAL_AFTER_MS) runtime.exit(1);
  });
  return begin;
}

/** The graceful shutdown: drains requests and streams, then closes the store and flushes the log. */
async function shutDown({ app, close }: Service, server: Listener, log: Log): Promise<void> {
  app.beginDrain();
  await sleep(DRAIN_NOTICE_MS - HOLD_MS);
  const release = app.holdResponses();
  await sleep(HOLD_MS);
  app.endStreams();
  const stopped = server.stop(); // closes the socket at once
  release();
  // `stopped` also waits for half-sent requests, which are not handled yet; `handled` does not.
  const handled = app.idle().then(() => sleep(RESPONSE_FLUSH_MS_MAX));
  await Promise.race([stopped, handled, sleep(DRAIN_MS_MAX)]);
  server.kill();
  try {
    await close();
    log.info('stopped');
  } finally {
    await flushed(log);
  }
}

/**
 * Listens and opens the database, last: a start that fails must not have migrated it, or the version before could not be
 * started again. Requests that come meanwhile wait. Processes that share a port find none in use, and others take the
 * requests, so they listen once the database is open.
 */
async function serveAndOpen(
  runtime: Runtime,
  config: Config,
  tls: Tls | null,
  service: PreparedService,
  onListening: (port: number) => void,
): Promise<Listener> {
  if (config.reusePort) await service.open();
  const opened = Promise.withResolvers<void>();
  let serve: ServeOptions['fetch'] = (request, peer) => opened.promise.then(() => service.app.fetch(request, peer));
  const server = await listen(runtime, config, tls, service, (request, peer) => serve(request, peer));
  onListening(server.port);
  try {
    if (!config.reusePort) await service.open();
  } catch (error) {
    server.kill();
    throw error;
  }
  serve = service.app.fetch;
  opened.resolve();
  return server;
}

/** Starts to listen; if that fails, closes the service and throws an Error that says why. */
async function listen(
  runtime: Runtime,
  { host: hostname, port, reusePort }: Config,
  tls: Tls | null,
  service: Service,
  fetch: ServeOptions['fetch'],
): Promise<Listener> {
  try {
    return openListener(runtime.serve, { hostname, port, reusePort, tls, fetch });
  } catch (error) {
    await service.close();
    throw new Error(await whyNotListening(error, hostname, port));
  }
}
