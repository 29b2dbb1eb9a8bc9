// `mcp-key-server health`: exits with 0 if the configured server responds. For the health check of an image without shell
// or curl. It checks only liveness: a restart does not help while the database is down.

import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { listeningOrigin } from '../ground/server-address.ts';
import { reasonOf } from '../ground/text.ts';
import { command } from './command.ts';
import { CommandError, configOf } from './io.ts';

const TIMEOUT_MS = 3000;

export const health = command({
  name: 'mcp-key-server health',
  summary:
    'Ends with 0 if the server of this configuration (HOST, PORT, BASE_PATH, TLS_CERT_FILE) answers, else with 1.',
  async run({ io }) {
    const config = configOf(io, { verifiesUsers: true });
    const { port, basePath } = config;
    if (port === 0) throw new CommandError('the address is not known, because PORT is 0; set it to that of the server');
    const url = `${listeningOrigin(config, port)}${basePath}/`;
    // addresses are always accepted, HOST only if ALLOWED_HOSTS has it
    const response = await getDirectly(url, TIMEOUT_MS, { host: '127.0.0.1' }).catch((error) => {
      throw new CommandError(`${url}: ${reasonOf(error)}`);
    });
    await response.body?.cancel();
    if (!response.ok) throw new CommandError(`${url} answered ${response.status}`);
  },
});

/**
 * Sends a GET to the server's own address: not through a proxy that the environment names, and whatever name its
 * certificate has. `fetch` has options for this only on Bun.
 */
export async function getDirectly(url: string, timeoutMs: number, headers = {}): Promise<Response> {
  const { get } = url.startsWith('https:') ? await import('node:https') : await import('node:http');
  const signal = AbortSignal.timeout(timeoutMs);
  const options = { headers, signal, agent: false, rejectUnauthorized: false };
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, options, resolve).on('error', (error) => reject(signal.aborted ? signal.reason : error));
  });
  const { statusCode: status = 0, headers: sent } = message;
  const body: unknown = Readable.toWeb(message); // Node.js and the web have two types of it
  const pairs = Object.entries(sent).map(([name, value]): [string, string] => [name, String(value)]);
  return new Response(body as ReadableStream, { status, headers: pairs });
}
