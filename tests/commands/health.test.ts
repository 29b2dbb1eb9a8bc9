// `health`: whether the server of this configuration responds.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { main } from '../../src/commands/all.ts';
import { makeCertificate } from '../support/certificate.ts';
import { run } from '../support/command.ts';
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
  const health = () => inProcess(main, env, ['health']);
  expect(await health()).toEqual({ code: 0, stdout: '', stderr: '' });
  await server.kill();
  const { code, stderr } = await health();
  expect({ code, lines: stderr.split('\n').length }).toEqual({ code: 1, lines: 2 });
});

test('the server is asked directly, whatever proxy the environment names', async () => {
  const [port, proxy] = freePorts(2); // nobody listens there
  const env = { JWT_SECRET: TEST_SECRET, PORT: String(port) };
  await using server = await startServer({ env });
  const HTTP_PROXY = `http://127.0.0.1:${proxy}`;
  const command = (...args: string[]) =>
    run([process.execPath, '--no-env-file', join(import.meta.dir, '../../src/cli.ts'), ...args], {
      cwd: server.folder,
      env: { ...env, HTTP_PROXY, ALL_PROXY: HTTP_PROXY },
    });
  expect(await command('health')).toEqual({ code: 0, stdout: '', stderr: '' });
  const { code, stdout } = await command('keys', 'doctor');
  expect({ code, found: stdout.includes(`ok at ${server.url},`) }).toEqual({ code: 0, found: true });
});

test('another program at the port, which responds with no status of HTTP, is one line', async () => {
  const odd = 'HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n';
  using other = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: (socket) => void socket.end(odd) } });
  const { code, stderr } = await inProcess(main, { JWT_SECRET: TEST_SECRET, PORT: String(other.port) }, ['health']);
  const said = /^mcp-key-server: http:[^\n]+ status [^\n]+\n$/;
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(said) });
});

test('of a server with a port that the system has picked nothing is known: port 80 is another program’s', async () => {
  const { code, stderr } = await inProcess(main, { JWT_SECRET: TEST_SECRET, PORT: '0' }, ['health']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('because PORT is 0') });
});
