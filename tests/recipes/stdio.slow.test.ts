// An MCP server that speaks stdio, behind the bridge of README.md and the same recipe for Caddy: official clients sign in
// with a key, and are refused once it is revoked.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { devDependencies } from '../../package.json';
import { callOver, userHeaders } from '../support/client.ts';
import { isMissing, startFrontProxy } from '../support/front-proxy.ts';
import { handOver } from '../support/hand-over.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { isUnauthorized, OVER_HTTP, signedIn } from '../support/oauth-clients.ts';
import { startServer } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const README = readFileSync(join(import.meta.dir, 'README.md'), 'utf8');
const [, VERSION = '', OPTIONS = ''] = /^npx -y supergateway@(\S+) --stdio "[^"]+" (.+)$/m.exec(README) ?? [];
const BRIDGE = join(import.meta.dir, '../../node_modules/supergateway/dist/index.js');
/** The official server package, with one tool, over stdio. */
const SERVER = `import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
const server = new McpServer({ name: 'own', version: '1' });
server.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
await server.connect(new StdioServerTransport());`;

const HELLO = { name: 'hello', arguments: {} };

test('the version in README.md is the one that is tested', () => {
  expect(VERSION).toBe(devDependencies.supergateway);
});

test.skipIf(isMissing('caddy')).each(OVER_HTTP)(
  '%s signs in to a stdio server, and is refused once the key is',
  async (_, kind) => {
    const [keysPort = 0, bridgePort = 0] = freePorts(2);
    const file = join(import.meta.dir, `../../node_modules/.stdio-${bridgePort}.ts`); // where it finds the package
    await Bun.write(file, SERVER);
    const command = `"${process.execPath}" "${file}"`; // the bridge gives it to a shell
    const options = OPTIONS.replace('8080', String(bridgePort)).split(' ');
    const bridge = Bun.spawn([process.execPath, BRIDGE, '--stdio', command, ...options], {
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const keysUrl = `http://127.0.0.1:${keysPort}`;
    const backends = { '127.0.0.1:3000': keysUrl, '127.0.0.1:8080': `http://127.0.0.1:${bridgePort}` } as const;
    await using proxy = await startFrontProxy('caddy', 'connect.Caddyfile', backends, (recipe) =>
      recipe.replaceAll('"https://keys.example"', `"${keysUrl}"`),
    );
    const env = { PORT: String(keysPort), JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', OAUTH_REDIRECTS: 'loopback' };
    await using keys = await startServer({ env: { ...env, OAUTH_RESOURCES: `${proxy.url}/mcp` } });
    try {
      await waitFor(() =>
        fetch(`http://127.0.0.1:${bridgePort}/mcp`).then(
          () => true,
          () => false,
        ),
      );
      const alice = await userHeaders('alice');
      const input = { name: 'n', scopes: ['read'], resource: `${proxy.url}/mcp` };
      const { body } = await callOver(keys.url, 'create_api_key', input, alice);
      const url = new URL(`${proxy.url}/mcp`);
      const signIn = createSignIn((page) => handOver(page, { key: body.key }));
      const client = await signedIn(kind, url, signIn, proxy.fetchAny);
      expect(await client.callTool(HELLO)).toMatchObject({ content: [{ text: 'hello' }] });
      await callOver(keys.url, 'revoke_api_key', { keyId: body.id }, alice);
      await waitFor(async () => isUnauthorized(await client.callTool(HELLO).catch((error: unknown) => error)));
      await client.close();
    } finally {
      bridge.kill();
      await bridge.exited;
      await Bun.file(file).delete();
    }
  },
);
