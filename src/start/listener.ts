// What a runtime's server is, when its certificate is too old, and why it can't listen.

import type { Tls } from '../config/tls.ts';
import type { Awaitable } from '../ground/result.ts';
import { MS_PER_DAY } from '../ground/runtime.ts';
import { expected } from '../ground/wording.ts';
import type { Connections } from '../web/context.ts';

export interface ServeOptions {
  readonly hostname: string;
  readonly port: number;
  /** Several processes may listen on the port; Linux distributes the connections. */
  readonly reusePort: boolean;
  readonly tls: Tls | null;
  fetch(request: Request, peer: Connections): Awaitable<Response>;
}

export interface RunningServer {
  /** The port; if 0 was asked for, the one that the system picked. */
  readonly port: number;
  /** Stops accepting; resolves when every connection has finished its work. */
  stop(): Promise<void>;
  kill(): void;
}

/** The time before its end from which a certificate is warned of. Two weeks are enough to replace it. */
export const CERTIFICATE_MS_MIN = 14 * MS_PER_DAY;

export async function whyNotListening(error: unknown, hostname: string, port: number): Promise<string> {
  if (!(await resolves(hostname))) return expected('HOST', 'an address or a name that resolves', hostname);
  const { code, message } = error as { code?: unknown; message?: unknown };
  const why = code === 'EADDRINUSE' ? 'is in use' : `can't be used (${code ?? message})`;
  return expected('HOST, PORT', `an address to listen on, but port ${port} of ${hostname} ${why}`);
}

/** Resolves with whether the name resolves. Bun reports that the port is in use for a name that doesn't. */
async function resolves(hostname: string): Promise<boolean> {
  const { lookup } = await import('node:dns/promises');
  return lookup(hostname).then(
    () => true,
    () => false,
  );
}
