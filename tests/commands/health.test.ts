// `health`: whether the server of this configuration responds.

import { expect, test } from 'bun:test';
import { main } from '../../src/commands/health.ts';
import { makeCertificate } from '../support/certificate.ts';
import { inProcess } from '../support/keys-command.ts';
import { startServer } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const { certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE } = makeCertificate();

test.each([
  ['under a path', { BASE_PATH: '/keys' }],
  ['on a name that is not in ALLOWED_HOSTS', { HOST: 'localhost', ALLOWED_HOSTS: 'keys.example' }],
  ['over TLS, on a name', { HOST: 'localhost', ALLOWED_HOSTS: 'keys.example', TLS_CERT_FILE, TLS_KEY_FILE }],
])('a server responds: %s', async (_, more: Record<string, string>) => {
  const [port] = freePorts(1); // nobody else gets it when the server has gone
  const env = { JWT_SECRET: TEST_SECRET, PORT: String(port), ...more };
  await using server = await startServer({ env });
  const health = () => inProcess(main, env, []);
  expect(await health()).toEqual({ code: 0, stdout: '', stderr: '' });
  await server.kill();
  const { code, stderr } = await health();
  expect({ code, lines: stderr.split('\n').length }).toEqual({ code: 1, lines: 2 });
});
