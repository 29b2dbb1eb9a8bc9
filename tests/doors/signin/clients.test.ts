// Clients that speak only OAuth use a key: from a 401, over the page where a person pastes it, to a tool that needs it.
// The clients are the official ones of both SDK generations.

import { expect, test } from 'bun:test';
import { rows } from '../../support/everything.ts';
import { handOver } from '../../support/hand-over.ts';
import { createSignIn } from '../../support/oauth-client.ts';
import { CLIENTS, isUnauthorized } from '../../support/oauth-clients.ts';
import { bearer, createTestApp, eventsIn } from '../../support/test-app.ts';

const PLACES: Readonly<Record<string, Record<string, string | undefined>>> = {
  'at the root': {},
  'below a BASE_PATH': { BASE_PATH: '/keys' },
  lazy: { MCP_AUTH: 'lazy' },
};

const GET_DATA = { name: 'get_data', arguments: {} };

/** Every client in one place, and one of them in every place; then the others. */
const ALL = Object.entries(CLIENTS).flatMap(([client, kind]) =>
  Object.entries(PLACES).map(([place, env]) => [client, place, kind, env] as const),
);
const isUsual = ([client, place]: (typeof ALL)[number]) => place === 'at the root' || client.endsWith('auto');
const ROWS = [...ALL.filter(isUsual), ...ALL.filter((row) => !isUsual(row))];

test.each(rows(ROWS, ALL.filter(isUsual).length))(
  '%s, %s, from a 401 to get_data, and again after a revocation',
  async (_client, _place, { path, connection }, env) => {
    await using app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', ...env } });
    const first = await app.createKey('alice', { scopes: ['read', 'write'] });
    let pasted = first.key;
    const { provider, signIn, authorizationUrl } = createSignIn((page) => handOver(page, { key: pasted }));
    const url = new URL(app.url + path);

    let client = connection(url, provider);
    const isEager = path === '/mcp' && env.MCP_AUTH !== 'lazy';
    const refused = await (isEager ? client.connect() : client.connect().then(() => client.callTool(GET_DATA))).catch(
      (error: unknown) => error,
    );
    expect(isUnauthorized(refused)).toBe(true);
    expect(authorizationUrl()?.pathname).toBe(`${new URL(app.url).pathname.replace(/^\/$/, '')}/authorize`);
    expect(authorizationUrl()?.searchParams.get('scope')).toBe('read');
    await client.finishAuth(await signIn());
    if (isEager) {
      client = connection(url, provider);
      await client.connect();
    }
    const data = (await client.callTool(GET_DATA)) as { structuredContent: { owner: string; key: { id: string } } };
    expect(data.structuredContent).toMatchObject({ owner: 'alice', key: { id: first.id } });

    await app.call('revoke_api_key', { keyId: first.id }, await bearer(app, 'alice'));
    expect(isUnauthorized(await client.callTool(GET_DATA).catch((error: unknown) => error))).toBe(true);
    const second = await app.createKey('alice');
    pasted = second.key;
    await client.finishAuth(await signIn());
    expect(await client.callTool(GET_DATA)).toMatchObject({ structuredContent: { key: { id: second.id } } });
    await client.close();

    const connected = (await eventsIn(app)).filter(({ kind }) => kind === 'connected');
    expect(connected.map(({ keyId, how, actor }) => [keyId, how, actor])).toEqual([
      [first.id, 'oauth', '127.0.0.1'],
      [second.id, 'oauth', '127.0.0.1'],
    ]);
  },
);
