// Listens; and with new TLS files listens anew on the same port, while requests under way go on. Reading the files is
// left to tls.ts, and when to, to server.ts.

import { expected } from '../config/expected.ts';
import type { Tls } from '../config/tls.ts';
import type { Connections } from '../http/context.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  /** Several processes may listen on the port, and Linux gives each its share of the connections. */
  readonly reusePort: boolean;
  readonly tls: Tls | null;
  fetch(request: Request, peer: Connections): Awaitable<Response>;
}

/** A listening socket and its connections, as a runtime has them. */
export interface RunningServer {
  readonly port: number;
  /**
   * Asks clients to close their connections, and `noticeMs` later stops accepting; resolves when the port can be
   * listened on again. Requests under way go on.
   */
  release(noticeMs: number): Promise<void>;
  /** Stops accepting; resolves when every connection has finished its work. */
  stop(): Promise<void>;
  /** Ends every connection now. */
  kill(): void;
}

export interface Listener extends Omit<RunningServer, 'release'> {
  /**
   * Serves new connections with `tls`. If that can't be used, with what there was before, and says why. Rejects if
   * nothing listens any more.
   */
  renew(tls: Tls, noticeMs: number): Promise<Result<void, string>>;
}

/** Throws what `serve` throws. */
export function openListener(serve: (options: ServeOptions) => RunningServer, options: ServeOptions): Listener {
  let current = serve(options);
  let tls = options.tls;
  let stopping = false;
  const { port } = current; // of 0, the one that was picked
  /** Those before, while requests of theirs are under way. */
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

/** The line that says what is wrong with the address. */
export async function whyNotListening(error: unknown, hostname: string, port: number): Promise<string> {
  if (!(await resolves(hostname))) return expected('HOST', 'an address or a name that resolves', hostname);
  const { code, message } = error as { code?: unknown; message?: unknown };
  const why = code === 'EADDRINUSE' ? 'is in use' : `can't be used (${code ?? message})`;
  return expected('HOST, PORT', `an address to listen on, but port ${port} of ${hostname} ${why}`);
}

/** Of a name that doesn't, Bun says that the port is in use. */
async function resolves(hostname: string): Promise<boolean> {
  const { lookup } = await import('node:dns/promises');
  return lookup(hostname).then(
    () => true,
    () => false,
  );
}
