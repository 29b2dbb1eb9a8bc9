// The server on Deno.

import { hash } from 'node:crypto';
import { VARIABLES } from './env.ts';
import { type Host, type RunningServer, type ServeOptions, start } from './start.ts';

/**
 * Serves `fetch` with Deno.serve. Deno's own shutdown breaks off bodies that are still being read, so `stop` first
 * waits until every request that was accepted is answered. New ones are turned away meanwhile.
 */
export function serve({ hostname, port, tls, fetch }: ServeOptions): RunningServer {
  const killer = new AbortController();
  let active = 0;
  let stopping = false;
  let shutting = false;
  let whenIdle = () => {};

  const server = Deno.serve(
    { hostname, port, ...tls, signal: killer.signal, onListen() {} },
    async (request, { remoteAddr }) => {
      if (stopping) return turnAway();
      active += 1;
      const response = await fetch(request, { address: () => remoteAddr.hostname, holdOpen });
      active -= 1;
      if (active === 0) whenIdle();
      return response;
    },
  );
  return {
    port: server.addr.port,
    async stop() {
      stopping = true;
      await new Promise<void>((resolve) => {
        whenIdle = resolve;
        if (active === 0) resolve();
      });
      shutting = true;
      await server.shutdown();
    },
    kill() {
      // After `shutdown` Deno throws at an abort. A connection that nobody reads from then ends with the process.
      if (!shutting) killer.abort();
    },
  };
}

const turnAway = () => new Response(null, { status: 503, headers: { Connection: 'close', 'Retry-After': '1' } });

const holdOpen = () => {}; // Deno ends no connection for being quiet

async function writeOut(chunk: Uint8Array): Promise<void> {
  let rest = chunk;
  while (rest.length > 0) rest = rest.subarray(await Deno.stdout.write(rest));
}

const host: Host = {
  // Each by its name: no permission to read the whole environment is needed.
  env: Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)])),
  sha256: (text, encoding) => hash('sha256', text, encoding),
  writeOut,
  writeErr: (text) => {
    Deno.stderr.writeSync(new TextEncoder().encode(text));
  },
  serve,
  onSignal(handler) {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) Deno.addSignalListener(signal, () => handler(signal));
  },
  exit: (code) => Deno.exit(code),
};

if (import.meta.main) await start(host);
