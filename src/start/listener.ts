// Declares the interface of a runtime's server, says why it can't listen, and when a certificate ends soon.

import type { Tls } from '../config/tls.ts';
import type { Awaitable } from '../ground/result.ts';
import { MS_PER_DAY } from '../ground/runtime.ts';
import { expected } from '../ground/text.ts';
import type { Connections } from '../web/context.ts';

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  /** Whether several processes may listen on the port; Linux distributes the connections. */
  readonly reusePort: boolean;
  readonly tls: Tls | null;
  fetch(request: Request, peer: Connections): Awaitable<Response>;
}

export interface RunningServer {
  /** The port, as picked by the system if 0 was requested. */
  readonly port: number;
  /** Stops accepting connections; resolves when all have finished their work. */
  stop(): Promise<void>;
  kill(): void;
}

/** How long before its end a certificate is warned about. Two weeks are enough to replace it. */
export const CERTIFICATE_MS_MIN = 14 * MS_PER_DAY;

/** Returns why the runtime doesn't listen. An error that isn't the system's is about the certificate, if there is one. */
export async function whyNotListening(
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
