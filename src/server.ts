// Start and stop, the same on every runtime: environment → config → service → serve, and the orderly way down.
// What differs between Bun and Deno comes in as `Host`.

import { createService, type Service } from './app.ts';
import { addressOf, banner } from './banner.ts';
import { type Config, parseConfig } from './config/config.ts';
import type { Env } from './config/env.ts';
import type { Tls } from './config/tls.ts';
import type { Connections } from './http/context.ts';
import type { Awaitable } from './lib/result.ts';
import { type Sha256, systemClock, systemRandom } from './lib/runtime.ts';
import { SERVER_NAME } from './lib/server-info.ts';
import { sleep, within } from './lib/timeout.ts';
import { createLog } from './log/log.ts';
import { redact } from './log/redact.ts';

/** What a runtime provides. */
export interface Host {
  readonly env: Env;
  readonly sha256: Sha256;
  /** Takes a chunk of log lines; resolves when it has left the process. */
  writeOut(chunk: Uint8Array): Promise<void>;
  writeErr(text: string): void;
  serve(options: ServeOptions): RunningServer;
  onSignal(handler: (signal: string) => void): void;
  exit(code: number): never;
}

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  readonly tls: Tls | null;
  fetch(request: Request, peer: Connections): Awaitable<Response>;
}

export interface RunningServer {
  readonly port: number;
  /** Stops accepting; resolves when every connection has finished its work. */
  stop(): Promise<void>;
  /** Ends every connection now. */
  kill(): void;
}

/**
 * Answers say `Connection: close` for this long before the listener closes, so that keep-alive clients reconnect
 * elsewhere.
 */
const DRAIN_NOTICE_MS = 300;

/** Requests may take this long to finish after that. */
const DRAIN_MS_MAX = 10_000;

/** An answer has this long to leave once its request is handled. */
const ANSWER_LEAVES_MS = 1000;

/** The last log lines have this long to leave: a reader that does not read must not keep the process alive. */
const LOG_LEAVES_MS = 1000;

/** Under a package runner one Ctrl-C arrives twice. Only a second signal that comes this much later means "now". */
const SECOND_SIGNAL_AFTER_MS = 1000;

export async function start(host: Host): Promise<void> {
  const parsed = parseConfig(host.env);
  if (!parsed.ok) return fail(host, parsed.error);
  try {
    await run(host, parsed.value);
  } catch (error) {
    fail(host, [error instanceof Error ? error.message : String(error)]);
  }
}

function fail(host: Host, lines: readonly string[]): never {
  // A bad value is shown, but not a key or token that stands in the wrong variable.
  for (const line of lines) host.writeErr(`${SERVER_NAME}: ${redact(line)}\n`);
  return host.exit(1);
}

async function run(host: Host, config: Config): Promise<void> {
  const clock = systemClock;
  const log = createLog({ level: config.logLevel, clock, write: host.writeOut });
  let publicUrl = config.publicUrl ?? '';

  const tls = config.tls && (await import('./config/tls.ts')).readTls(config.tls); // loads node:crypto: 7 ms
  if (config.database.mode === 'remote' && config.database.replicaFile !== null && host.env.RUST_LOG !== 'off') {
    // When in trouble, the replica's native part writes to stdout. It reads this variable before any of our code runs.
    log.warn('RUST_LOG is not off in the environment: the database driver may write to stdout, between these lines');
  }
  const { sha256 } = host;
  const service = await createService(config, { clock, random: systemRandom, sha256, log, publicUrl: () => publicUrl });
  const server = await listen(
    host,
    { hostname: config.host, port: config.port, tls, fetch: service.app.fetch },
    service,
  );
  const listening = addressOf(config, server.port);
  publicUrl ||= listening + config.basePath;

  let stoppingSinceMs: number | undefined;
  host.onSignal((signal) => {
    if (stoppingSinceMs !== undefined) {
      if (clock.monotonicMs() - stoppingSinceMs >= SECOND_SIGNAL_AFTER_MS) host.exit(1);
      return;
    }
    stoppingSinceMs = clock.monotonicMs();
    log.info('stopping', { signal });
    void stop().then(
      () => host.exit(0),
      (error) => fail(host, [String(error)]),
    );
  });
  host.writeErr(banner(config, listening, publicUrl)); // last: whoever waits for it may send a signal at once

  async function stop(): Promise<void> {
    service.app.beginDrain();
    await sleep(DRAIN_NOTICE_MS);
    service.app.endStreams();
    // `server.stop` also waits for half-sent requests, which nobody handles yet; `answered` does not.
    const answered = service.app.idle().then(() => sleep(ANSWER_LEAVES_MS));
    await Promise.race([server.stop(), answered, sleep(DRAIN_MS_MAX)]);
    server.kill();
    try {
      await service.close();
      log.info('stopped');
    } finally {
      await within(LOG_LEAVES_MS, log.flush(), undefined);
    }
  }
}

/** Starts to listen; if that fails, closes the service and throws an Error that says why. */
async function listen(host: Host, options: ServeOptions, service: Service): Promise<RunningServer> {
  try {
    return host.serve(options);
  } catch (error) {
    await service.close();
    const { code, message } = error as { code?: unknown; message?: unknown };
    const why = code === 'EADDRINUSE' ? 'is in use' : `can't be used (${code ?? message})`;
    throw new Error(
      `HOST, PORT: expected an address to listen on, but port ${options.port} of ${options.hostname} ${why}`,
    );
  }
}
