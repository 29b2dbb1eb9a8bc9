// `mcp-key-server health`: exits with 0 if the server of this configuration responds. For the health check of an image,
// which has neither shell nor curl. Liveness alone: a restart does not help while only the database is down.

import { parseConfig } from '../config/config.ts';
import { reasonOf } from '../lib/text.ts';
import { addressOf } from '../server/banner.ts';
import { asksForHelp } from './help.ts';

const TIMEOUT_MS = 3000;

const USAGE =
  'usage: mcp-key-server health\nEnds with 0 if the server of this configuration (HOST, PORT, BASE_PATH, TLS_CERT_FILE) answers, else with 1.\n';

export async function main(args: readonly string[]): Promise<void> {
  if (asksForHelp(args)) return void process.stdout.write(USAGE);
  const parsed = parseConfig(process.env);
  if (!parsed.ok) return fail(parsed.error.join('\n'));
  const { port, basePath } = parsed.value;
  const url = `${addressOf(parsed.value, port)}${basePath}/`;
  try {
    const { ok, status } = await fetch(url, {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { host: '127.0.0.1' }, // an address is always accepted, HOST only if ALLOWED_HOSTS has it
      tls: { rejectUnauthorized: false }, // its certificate is for its public name, not for this address
    });
    if (!ok) fail(`${url} answered ${status}`);
  } catch (error) {
    fail(`${url}: ${reasonOf(error)}`);
  }
}

function fail(line: string): void {
  process.stderr.write(`${line}\n`);
  process.exitCode = 1;
}

if (import.meta.main) await main(process.argv.slice(2));
