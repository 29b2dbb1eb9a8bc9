// `mcp-key-server health`: exits with 0 if the configured server responds. For the health check of an image without shell
// or curl. It checks only liveness: a restart does not help while the database is down.

import { parseConfig } from '../config/config.ts';
import { listeningOrigin } from '../ground/server-address.ts';
import { reasonOf } from '../ground/text.ts';
import { command, endWith, mainOf } from './command.ts';
import { CommandError } from './io.ts';

const TIMEOUT_MS = 3000;

export const health = command({
  name: 'mcp-key-server health',
  summary:
    'Ends with 0 if the server of this configuration (HOST, PORT, BASE_PATH, TLS_CERT_FILE) answers, else with 1.',
  async run({ io }) {
    const parsed = parseConfig(io.env);
    if (!parsed.ok) throw new CommandError(parsed.error.join('\n'));
    const { port, basePath } = parsed.value;
    const url = `${listeningOrigin(parsed.value, port)}${basePath}/`;
    const response = await fetch(url, {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { host: '127.0.0.1' }, // addresses are always accepted, HOST only if ALLOWED_HOSTS has it
      tls: { rejectUnauthorized: false }, // the certificate is for the public name, not for this address
    }).catch((error) => {
      throw new CommandError(`${url}: ${reasonOf(error)}`);
    });
    if (!response.ok) throw new CommandError(`${url} answered ${response.status}`);
  },
});

export const main = mainOf(health, 'health');

if (import.meta.main) void endWith(main);
