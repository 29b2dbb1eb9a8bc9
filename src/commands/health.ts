// `mcp-key-server health`: ends with 0 if the server of this configuration answers. For the health check of an image,
// which has neither shell nor curl. Liveness alone: restarting helps nobody while only the database is away.

import { addressOf } from '../banner.ts';
import { parseConfig } from '../config/config.ts';

const TIMEOUT_MS = 3000;

export async function main(): Promise<void> {
  const parsed = parseConfig(process.env);
  if (!parsed.ok) return fail(parsed.error.join('\n'));
  const { port, basePath } = parsed.value;
  const url = `${addressOf(parsed.value, port)}${basePath}/`;
  try {
    // Its certificate is for its public name, not for this address.
    const options = { signal: AbortSignal.timeout(TIMEOUT_MS), tls: { rejectUnauthorized: false } };
    const { ok, status } = await fetch(url, options);
    if (!ok) fail(`${url} answered ${status}`);
  } catch (error) {
    fail(`${url}: ${(error as Error).message}`);
  }
}

function fail(line: string): void {
  process.stderr.write(`${line}\n`);
  process.exitCode = 1;
}

if (import.meta.main) await main();
