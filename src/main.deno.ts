// Starts the server on Deno, with what start/server.ts needs of this runtime.

import { hash } from 'node:crypto';
import { cpuUsage } from 'node:process';
import { pathToFileURL } from 'node:url';
import { type Env, NAMES } from './config/env.ts';
import { SERVER_NAME } from './ground/server-info.ts';
import { REPLACEMENT } from './ground/text.ts';
import { type Runtime, refuseArgument, type ServeOptions, start } from './start/server.ts';
import type { RunningServer } from './start/stop.ts';

/** The pause before a port is opened again. */
const REOPEN_MS = 1000;

/**
 * Starts listening. Deno's own shutdown cuts off bodies that are being read, so `stop` first refuses new requests and
 * waits for the others. Where a connection can't be accepted, as without free descriptors, Deno closes the port, and goes
 * on with the connections that it has: the port is opened again.
 */
function serve({ hostname, port, tls, fetch }: ServeOptions): RunningServer {
  const killer = new AbortController();
  let active = 0;
  let stopping = false;
  let shutting = false;
  let whenIdle = () => {};

  async function handle(request: Request, { remoteAddr }: Deno.HandlerInfo): Promise<Response> {
    const refused = stopping;
    if (!refused) active += 1;
    const isClosed = () => refused;
    const found = await fetch(request, { address: () => remoteAddr.hostname, holdOpen, lacksHost, isClosed });
    const response = request.method === 'HEAD' ? await withoutBody(found) : found;
    if (!refused) active -= 1;
    if (active === 0) whenIdle();
    return response;
  }

  function open(at: number): Deno.HttpServer {
    const keys = tls && { cert: tls.cert, key: tls.key };
    const opened = Deno.serve({ hostname, port: at, ...keys, signal: killer.signal, onListen() {} }, handle);
    void opened.finished.catch((error) => {
      reopenLater();
      throw error; // to the log
    });
    return opened;
  }

  const reopenLater = () => void setTimeout(reopen, REOPEN_MS);
  function reopen(): void {
    if (stopping) return;
    try {
      server = open(server.addr.port);
    } catch {
      reopenLater();
    }
  }

  let server = open(port);
  // Deno gives a request without Host this URL, and doesn't reveal its HTTP version, so HTTP/1.0 without Host is
  // refused, too. HTTP/2 (over TLS) has no Host header either, and its clients may well name localhost.
  const madeUp = `http://localhost:${server.addr.port}/`;
  const lacksHost = ({ headers, url }: Request) => url.startsWith(madeUp) && !headers.has('host');
  const idle = () =>
    new Promise<void>((resolve) => {
      whenIdle = resolve;
      if (active === 0) resolve();
    });
  return {
    port: server.addr.port,
    async stop() {
      stopping = true;
      await idle();
      shutting = true;
      await server.shutdown();
    },
    kill() {
      // After `shutdown`, Deno throws on abort. A connection whose client doesn't read ends with the process.
      if (!shutting) killer.abort();
    },
  };
}

/** Returns a response to HEAD with the length of its body alone: over HTTP/2 Deno would send the body, and clients fail. */
async function withoutBody(response: Response): Promise<Response> {
  if (response.body === null) return response;
  const { byteLength } = await response.bytes();
  response.headers.set('Content-Length', String(byteLength));
  return new Response(null, response);
}

const holdOpen = () => {}; // Deno has no idle timeout

async function writeOut(chunk: Uint8Array): Promise<void> {
  let rest = chunk;
  while (rest.length > 0) rest = rest.subarray(await Deno.stdout.write(rest));
}

/** Reads a variable. Returns what Bun returns for invalid UTF-8, for which Deno throws an error that quotes it. */
function variable(name: string): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (error) {
    if ((error as Error).name === 'InvalidData') return REPLACEMENT;
    throw error;
  }
}

/**
 * Reads variables by name, which needs no permission for the whole environment, and those of tools and traces when they ask.
 */
const env = new Proxy<Env>(Object.fromEntries(NAMES.map((name) => [name, variable(name)])), {
  get: (known, name) =>
    typeof name === 'string' && /^(?:OTEL|TOOL)_/.test(name) ? variable(name) : known[name as keyof Env],
});

/** Whether the server itself ends the process. */
let isEnding = false;

export const runtime: Runtime = {
  sharesPorts: false, // Deno's `reusePort` is unstable
  runScript: 'bun run',
  packageCommand: () => `deno run --allow-all npm:${SERVER_NAME}`,
  env,
  sha256: (text, encoding) => hash('sha256', text, encoding),
  writeOut,
  writeErr(text) {
    try {
      Deno.stderr.writeSync(new TextEncoder().encode(text));
    } catch {
      // nobody reads stderr
    }
  },
  serve,
  // For tool files, src/import-map.json maps `mcp-key-server` to tools/folder/module.ts.
  importTool: (path) => import(pathToFileURL(path).href),
  forgetTools: async (folder) => (await import('./commands/reloaded-deno.ts')).forgetTools(folder),
  usage() {
    const { user, system } = cpuUsage(); // microseconds
    return { residentBytes: Deno.memoryUsage().rss, cpuSeconds: (user + system) / 1e6 };
  },
  // Over HTTP/2 all would share one connection, and if it died silently, wait until TCP gives it up: a quarter of an hour.
  createHttpClient: () => Deno.createHttpClient({ http2: false }),
  onSignal(handler) {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      Deno.addSignalListener(signal, () => handler(signal));
  },
  onExit(handler) {
    const failed = () => {
      if (isEnding) return;
      Deno.exitCode = 1;
      handler();
    };
    addEventListener('unload', failed, { once: true });
    return () => removeEventListener('unload', failed);
  },
  onStrayError(handler) {
    addEventListener('unhandledrejection', (event: PromiseRejectionEvent) => {
      event.preventDefault();
      handler(event.reason);
    });
    addEventListener('error', (event: ErrorEvent) => {
      event.preventDefault();
      handler(event.error);
    });
  },
  exit(code) {
    isEnding = true;
    return Deno.exit(code);
  },
};

async function main(): Promise<void> {
  const [first, second] = Deno.args;
  const isDev = first === 'dev';
  refuseArgument(runtime, isDev ? second : first);
  await start(runtime, {}, isDev ? (await import('./start/reload.ts')).createReloader : undefined);
}

if (import.meta.main) void main();
