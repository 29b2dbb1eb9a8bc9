// A program with a listener of its own makes the app alone.

import { hash } from 'node:crypto';
import { createLog, createService, parseConfig, systemClock, systemRandom } from 'mcp-key-server';
import countLines from './count-lines.ts';

const config = parseConfig(process.env);
if (!config.ok) throw new Error(config.error.join('\n'));
const { app, close } = await createService(config.value, {
  clock: systemClock,
  random: systemRandom,
  sha256: (text, encoding) => hash('sha256', text, encoding),
  log: createLog({ level: 'info', clock: systemClock, write: async (chunk) => void process.stdout.write(chunk) }),
  publicUrl: 'https://keys.example',
  toolFiles: [{ file: 'count-lines', make: countLines }],
});
const peer = { address: () => null, holdOpen() {} };
const response = await app.fetch(new Request('http://127.0.0.1/tools/count_lines', { method: 'POST' }), peer);
console.log(response.status);
await close();
