// Starts the server, the same on every runtime: configuration → signals → listen → app → database → banner. `Runtime`
// has what differs between Bun and Deno.

import { existsSync } from 'node:fs';
import { prepareService, type Service, type ServiceOptions } from '../app.ts';
import { type Config, parseConfig } from '../config/config.ts';
import type { Env } from '../config/env.ts';
import { contradictions, misspelt, settingsOf, withoutEffect } from '../config/settings-report.ts';
import type { Tls } from '../config/tls.ts';
import type { Awaitable } from '../ground/result.ts';
import { type Cancel, type CreateHttpClient, type Sha256, systemClock, systemRandom } from '../ground/runtime.ts';
import { listeningOrigin } from '../ground/server-address.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { expected, reasonOf } from '../ground/text.ts';
import type { ImportModule } from '../tools/folder/read-folder.ts';
import { type StartOptions, type ToolFile, toolFilesOf } from '../tools/folder/tool-file.ts';
import { createLog, type Log } from '../watch/log.ts';
import { redact } from '../watch/redact.ts';
import type { Connections } from '../web/context.ts';
import { banner, logListening } from './banner.ts';
import { watchLoop } from './loop-watch.ts';
import type { CreateReloader } from './reload.ts';
import { flushLog, obeySignals, type RunningServer, shutDown } from './stop.ts';

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  /** Whether several processes may listen on the port; Linux distributes the connections. */
  readonly reusePort: boolean;
  readonly tls: Tls | null;
  fetch(request: Request, connections: Connections): Awaitable<Response>;
}

export interface Runtime {
  /** Whether connections to a port are distributed among the processes that listen on it. */
  readonly sharesPorts: boolean;
  /** How to run a script of package.json, or the command that replaces it. Null: not possible here. */
  readonly runScript: string | null;
  /** How a shell calls this executable, if it is one. */
  readonly executable?: string | undefined;
  packageCommand(): string;
  readonly env: Env;
  readonly sha256: Sha256;
  /** Writes a chunk of log lines; resolves when it has left the process. */
  writeOut(chunk: Uint8Array): Promise<void>;
  writeErr(text: string): void;
  serve(options: ServeOptions): RunningServer;
  /** Imports a tool file, whose import `mcp-key-server` is tools/folder/module.ts. */
  readonly importTool: ImportModule;
  /** Drops imported modules of a folder (an absolute path), so that development reads them again. */
  forgetTools(folder: string): Promise<void>;
  usage: NonNullable<ServiceOptions['usage']>;
  readonly createHttpClient?: CreateHttpClient;
  /** Calls `handler` at SIGTERM, SIGINT and SIGHUP. */
  onSignal(handler: (signal: string) => void): void;
  /** Calls `handler` if anything but `exit` ends the process before this is cancelled, and makes the exit code 1. */
  onExit(handler: () => void): Cancel;
  /** Calls `handler` for unhandled rejections and exceptions, which would otherwise end the process. */
  onStrayError(handler: (error: unknown) => void): void;
  exit(code: number): never;
}

const DEFAULT_FOLDER = './tools';

/**
 * Starts the server. `custom`: tools and resources besides the tools folder's. `createReloader`: reloads tools as they
 * change (reload.ts).
 */
export async function start(
  runtime: Runtime,
  custom: StartOptions = {},
  createReloader?: CreateReloader,
): Promise<void> {
  const parsed = parseConfig(runtime.env);
  if (!parsed.ok) return fail(runtime, parsed.error);
  const log = createLog({ level: parsed.value.logLevel, clock: systemClock, write: runtime.writeOut });
  try {
    await run(runtime, parsed.value, custom, log, createReloader);
  } catch (error) {
    await flushLog(log); // its warnings may be the cause
    fail(runtime, [reasonOf(error)]);
  }
}

/** Returns a line for stderr. It shows bad values, but redacts a key or token in the wrong variable. */
const errorLine = (line: string): string => `${SERVER_NAME}: ${redact(line)}\n`;

function fail(runtime: Runtime, lines: readonly string[]): never {
  for (const line of lines) runtime.writeErr(errorLine(line));
  return runtime.exit(1);
}

/** Ends a start with an argument, such as `--port 8080`, which would have no effect. */
export function refuseArgument(runtime: Runtime, argument: string | undefined): void {
  if (argument === undefined) return;
  fail(runtime, [`expected no argument, got ${JSON.stringify(argument)}; settings are variables, like PORT=8080`]);
}

async function run(
  runtime: Runtime,
  config: Config,
  custom: StartOptions,
  log: Log,
  createReloader?: CreateReloader,
): Promise<void> {
  if (config.reusePort && !runtime.sharesPorts) {
    throw new Error(expected('REUSE_PORT', 'to be unset; only Bun on Linux shares a port among processes'));
  }
  const clock = systemClock;
  let lastCalled: () => string | undefined = () => undefined;
  // Nearly always a tool left it behind after its call, and a tool's bug must not end the service for others. Installed
  // before tool files are loaded, because they may cause such errors, too.
  runtime.onStrayError((error) => log.error('internal error', { perhaps: lastCalled(), error }));
  const tls = config.tls && (await import('../config/tls.ts')).readTls(config.tls); // loads node:crypto: 7 ms
  const folder = createToolFolder(runtime, config, custom, () => lastCalled());
  const inFolder = createReloader === undefined ? await folder.read() : []; // first, so that a mistake leaves the port to others
  let end = () => flushLog(log);
  // Before anything that waits: without a handler no signal reaches the first process of a container. After tool files:
  // one that loads for ever would keep the handler from running.
  const { onSignal, exit, sha256, usage, createHttpClient, env, runScript } = runtime;
  obeySignals({ onSignal, exit, fail: (error) => fail(runtime, [String(error)]), shutDown: () => end(), clock, log });
  // A shared port is opened last: until then other processes take the requests.
  const listener = config.reusePort ? null : await listen(runtime, config, tls);
  const listening = listeningOrigin(config, listener?.server.port ?? config.port);
  const make = (files: readonly ToolFile[]) =>
    prepareService(config, {
      clock,
      random: systemRandom,
      sha256,
      log,
      listening,
      usage,
      createHttpClient,
      env,
      runScript,
      toolFiles: [...toolFilesOf(custom), ...files],
      certificateEndsAtMs: tls?.endsAtMs,
    });
  const say = (line: string) => runtime.writeErr(errorLine(line));
  const { database } = config;
  const reloader = createReloader?.({ folder, database, forget: runtime.forgetTools, make, say, clock, log });
  let service = await (reloader === undefined ? make(inFolder) : reloader.makeFirst());
  if (reloader === undefined) folder.cancelLastWords(); // a program may end the server that it has started
  lastCalled = () => service.lastCalled();
  logStarted(env, config, service, log);
  if (tls !== null) warnOfCertificate(tls, clock.nowMs(), log);
  await service.checkIssuer();
  await service.open(); // last: a failed start must not have migrated, or the previous version could not start again
  const { server, answerBy } = listener ?? (await listen(runtime, config, tls));
  answerBy(service.app.fetch);
  // Whichever service runs then, and those before it.
  const idle = () => Promise.all([service.app.idle(), reloader?.idle()]);
  const close = () => Promise.all([service.close(), reloader?.close()]);
  end = () => shutDown({ app: { ...service.app, idle }, close }, server, log);
  reloader?.begin((next) => {
    const before = service;
    service = next;
    answerBy(next.app.fetch);
    return before;
  });
  void service.fetchKeys();
  watchLoop({ clock, log, lastCalled });
  const facts = { listening, publicUrl: service.url, runScript, env, custom: service.custom, folder };
  // Last, because its reader may send a signal at once.
  runtime.writeErr(config.production ? logListening(config, facts, log) : banner(config, facts));
}

/** Creates the reader of the operator's folder. A tool that ends the process is named on stderr, until that is cancelled. */
function createToolFolder(
  { onExit, writeErr, importTool }: Runtime,
  { toolsDir }: Config,
  custom: StartOptions,
  lastCalled: () => string | undefined,
) {
  const path = toolsDir ?? DEFAULT_FOLDER;
  const lastWords = (line: () => string) => onExit(() => writeErr(errorLine(line())));
  let cancelLastWords: Cancel = () => {};
  let exists = false;
  return {
    path,
    /** Returns whether it was there when it was last read. */
    exists: () => exists,
    async read(): Promise<readonly ToolFile[]> {
      exists = toolsDir !== null || (custom.tools === undefined && isThere(path)); // its tools may be custom.tools
      if (!exists) return [];
      const { readToolFolder } = await import('../tools/folder/read-folder.ts');
      cancelLastWords();
      const reading = readToolFolder(path, importTool, (line) => lastWords(() => line));
      return reading.finally(() => {
        cancelLastWords = lastWords(() => endedWords(lastCalled()));
      });
    },
    cancelLastWords: () => cancelLastWords(),
  };
}

const endedWords = (lastCalled: string | undefined): string =>
  `tools: expected them to leave the server running, but one has ended it${lastCalled ? `; called last: ${lastCalled}` : ''}`;

function isThere(folder: string): boolean {
  try {
    return existsSync(folder);
  } catch {
    return false; // Deno may not read it
  }
}

/** Logs the configuration, and variables that are surely not as intended. */
function logStarted(env: Env, config: Config, service: Service, log: Log): void {
  log.info('started', {
    version: SERVER_VERSION,
    environment: config.environment,
    store: service.storeMode,
    settings: settingsOf(env),
    tools: Object.fromEntries(service.custom),
  });
  for (const doubt of withoutEffect(env, config)) log.warn('variable without effect', doubt);
  for (const doubt of contradictions(env, config)) log.warn('variable contradicts another', doubt);
  for (const slip of misspelt(env, service.toolVariables)) log.warn('variable perhaps misspelt', slip);
}

/** Warns about a certificate that clients refuse, or soon will. */
function warnOfCertificate({ endsAtMs, endsSoonFromMs }: Tls, nowMs: number, log: Log): void {
  const end = new Date(endsAtMs).toISOString();
  if (nowMs >= endsAtMs) log.warn('certificate has expired', { end });
  else if (nowMs > endsSoonFromMs) log.warn('certificate ends soon', { end });
}

/** Listens. Requests wait until `answerBy` sets a handler. */
async function listen(runtime: Runtime, { host: hostname, port, reusePort }: Config, tls: Tls | null) {
  const opened = Promise.withResolvers<ServeOptions['fetch']>();
  let fetch: ServeOptions['fetch'] = (request, connections) =>
    opened.promise.then((answer) => answer(request, connections));
  try {
    const server = runtime.serve({
      hostname,
      port,
      reusePort,
      tls,
      fetch: (request, connections) => fetch(request, connections),
    });
    return {
      server,
      answerBy(answer: ServeOptions['fetch']): void {
        fetch = answer;
        opened.resolve(answer);
      },
    };
  } catch (error) {
    throw new Error(await whyNotListening(error, { hostname, port, tls }));
  }
}

/** Returns why the runtime doesn't listen. An error that isn't the system's is about the certificate, if there is one. */
async function whyNotListening(
  error: unknown,
  { hostname, port, tls }: Pick<ServeOptions, 'hostname' | 'port' | 'tls'>,
): Promise<string> {
  const { lookup } = await import('node:dns/promises');
  // Bun reports a name that doesn't resolve as a port in use.
  const address = await lookup(hostname).catch(() => null);
  if (address === null) return expected('HOST', 'an address or a name that resolves', hostname);
  const { code, message } = error as { code?: unknown; message?: unknown };
  const isOfSystem = typeof code === 'string' && /^E[A-Z]+$/.test(code);
  if (tls !== null && !isOfSystem) {
    const what = 'a certificate and a key of a kind that can be served';
    return `${expected('TLS_CERT_FILE, TLS_KEY_FILE', what)} (${code ?? message})`;
  }
  const why = code === 'EADDRINUSE' ? 'is in use' : `can't be used (${code ?? message})`;
  return expected('HOST, PORT', `an address to listen on, but port ${port} of ${hostname} ${why}`);
}
