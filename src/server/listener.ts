// Listens; with new TLS files listens anew on the same port, while requests under way go on. tls.ts reads the files.

import { expected } from '../config/expected.ts';
import type { Tls } from '../config/tls.ts';
import type { Connections } from '../http/context.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  /** Several processes may listen on the port; Linux distributes the connections. */
  readonly reusePort: boolean;
  readonly tls: Tls | null;
  fetch(request: Request, peer: Connections): Awaitable<Response>;
}

export interface RunningServer {
  readonly port: number;
  /**
   * Tells clients to close their connections, and stops accepting `noticeMs` later. Resolves when the port is free.
   * Requests under way go on.
   */
  release(noticeMs: number): Promise<void>;
  /** Stops accepting; resolves when every connection has finished its work. */
  stop(): Promise<void>;
  kill(): void;
}

export interface Listener extends Omit<RunningServer, 'release'> {
  /** Serves new connections with `tls`; an error says why it kept the old. Rejects if nothing listens any more. */
  renew(tls: Tls, noticeMs: number): Promise<Result<void, string>>;
}

export function openListener(serve: (options: ServeOptions) => RunningServer, options: ServeOptions): Listener {
  let current = serve(options);
  let tls = options.tls;
  let stopping = false;
  const { port } = current; // of 0, the one that was picked
  /** Servers before `current` that still have requests under way. */
  const released = new Set<RunningServer>();
  const all = () => [current, ...released];

  return {
    port,
    async renew(next, noticeMs) {
      const before = current;
      await before.release(noticeMs);
      if (stopping) return err('the server is stopping');
      released.add(before);
      void before.stop().then(() => released.delete(before));
      // Neither runtime takes a new certificate while it listens: Bun's `reload({ tls })` keeps the old one.
      try {
        current = serve({ ...options, port, tls: next });
        tls = next;
        return ok(undefined);
      } catch (error) {
        current = serve({ ...options, port, tls });
        return err(String(error));
      }
    },
    async stop() {
      stopping = true;
      await Promise.all(all().map((server) => server.stop()));
    },
    kill() {
      for (const server of all()) server.kill();
    },
  };
}

export async function whyNotListening(error: unknown, hostname: string, port: number): Promise<string> {
  if (!(await resolves(hostname))) return expected('HOST', 'an address or a name that resolves', hostname);
  const { code, message } = error as { code?: unknown; message?: unknown };
  const why = code === 'EADDRINUSE' ? 'is in use' : `can't be used (${code ?? message})`;
  return expected('HOST, PORT', `an address to listen on, but port ${port} of ${hostname} ${why}`);
}

/** For a name that doesn't, Bun reports that the port is in use. */
async function resolves(hostname: string): Promise<boolean> {
  const { lookup } = await import('node:dns/promises');
  return lookup(hostname).then(
    () => true,
    () => false,
  );
}
