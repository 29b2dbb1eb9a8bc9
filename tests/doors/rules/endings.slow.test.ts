// The tokens of a rule end within the bound at every process and in each place of a key, whoever ends them, wherever the
// store is.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { userHeaders } from '../../support/client.ts';
import { type Cluster, callServer, served, startCluster } from '../../support/cluster.ts';
import { openDatabase } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createIssuer, createKey, type Issuer } from '../../support/issuer.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { call, post } from '../../support/mcp.ts';
import { leaseOf, type Service } from '../../support/service.ts';
import { STORE_MODES } from '../../support/store-mode.ts';
import { SUBJECT } from './workload.ts';

setDefaultTimeout(300_000); // processes are started, on machines that do other things too

const LAG_MAX_MS = 1000; // the default
/** So long nobody is let in, so that a late success would be seen. */
const QUIET_MS = 200;
const USE_EVERY_MS = 10;
const AUDIENCE = 'workloads';

interface Made {
  readonly keyId: string;
  readonly owner: string;
  readonly ruleId: string;
  readonly issuer: Issuer;
  keys(...args: string[]): Promise<string>;
  shell(sql: string): Promise<void>;
  tool(name: string): Promise<unknown>;
}

const ENDINGS: Readonly<Record<string, (made: Made) => Promise<unknown>>> = {
  'the rule is removed': ({ keys, ruleId }) => keys('rule', 'remove', ruleId),
  'the rule is deleted by a database shell': ({ shell, ruleId }) => shell(`DELETE FROM rules WHERE id = '${ruleId}'`),
  'the key is revoked': ({ tool }) => tool('revoke_api_key'),
  'the key is deleted': ({ tool }) => tool('delete_api_key'),
  'the key is narrowed': ({ keys, keyId }) => keys('update', keyId, '--scope', 'other'),
  'the key is bound to another server': ({ shell, keyId }) =>
    shell(`UPDATE api_keys SET resource = 'https://other.example' WHERE id = '${keyId}'`),
  'the owner is blocked': ({ keys, owner }) => keys('block', owner, '--yes'),
  'the owner is deleted': ({ keys, owner }) => keys('owner', owner, '--delete', '--yes'),
  async 'the key set is replaced'({ keys, keyId, issuer }) {
    const file = join(temporaryFolder(), 'jwks.json');
    await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256', 'first')).jwk] }));
    await keys('rule', 'add', keyId, ...termsOf(issuer), '--jwks', file);
  },
};

const termsOf = ({ url }: Issuer) => ['--issuer', url, '--subject', SUBJECT, '--audience', AUDIENCE];

/** Whether a token is let in, in each place of a key. */
const PLACES: Readonly<
  Record<string, (server: { readonly url: string }, token: string, service: Service) => Promise<boolean>>
> = {
  REST: async (server, token) => (await callServer(server, 'get_data', {}, { 'x-api-key': token })).status === 200,
  async '/mcp'(server, token) {
    const { status, body } = await post(server as never, call('get_data'), { authorization: `Bearer ${token}` });
    return status === 200 && body.result !== undefined && body.result.isError !== true;
  },
  '/verify': async ({ url }, token) =>
    (await fetch(`${url}/verify?scope=read`, { headers: { 'x-api-key': token } })).status === 200,
  async '/introspect'(server, token, service) {
    const { body } = await leaseOf(server, service, token, {});
    return body.active === true && body.scope === 'read';
  },
};

async function make({ servers, database }: Cluster, issuer: Issuer): Promise<Made> {
  const owner = `owner ${crypto.randomUUID()}`;
  const headers = await userHeaders(owner);
  const [maker] = servers;
  if (maker === undefined) throw new Error('a cluster without servers');
  const callTool = (name: string, input: object) => served(() => callServer(maker, name, input, headers));
  const keyId = (await callTool('create_api_key', { name: 'k', scopes: ['read'] })).body.id;
  async function keys(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await keysCommand(database, args);
    if (code !== 0) throw new Error(`keys ${args.join(' ')}: ${stderr}`);
    return stdout.trim();
  }
  return {
    keyId,
    owner,
    issuer,
    ruleId: await keys('rule', 'add', keyId, ...termsOf(issuer)),
    keys,
    tool: (name) => callTool(name, { keyId }),
    async shell(sql) {
      const db = openDatabase(database.DATABASE_URL ?? '');
      await db.execute(sql);
      db.close();
    },
  };
}

const SERVERS = (['bun', 'deno'] as const).flatMap((runtime) => STORE_MODES.map((mode) => [runtime, mode] as const));

test.each(rows(SERVERS, 1))('two servers on %s, of the kind %s: nine endings', async (runtime, mode) => {
  await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
  const { servers } = cluster;
  const operator = await userHeaders('operator');
  const wanted = { name: 'service', scopes: ['introspect'] };
  const made = await served(() => callServer(servers[0] as { url: string }, 'create_api_key', wanted, operator));
  const service: Service = made.body;
  for (const [how, end] of Object.entries(ENDINGS)) {
    await using issuer = await createIssuer();
    const one = await make(cluster, issuer);
    const nowS = Math.floor(Date.now() / 1000);
    const token = await issuer.token({ sub: SUBJECT, aud: AUDIENCE, iat: nowS, exp: nowS + 3600 });
    const asked = servers.flatMap((server) =>
      Object.values(PLACES).map((isLetIn) => () => isLetIn(server, token, service)),
    );
    for (const isLetIn of asked) while (!(await isLetIn())) await Bun.sleep(USE_EVERY_MS);
    await end(one);
    const endedMs = performance.now();
    const last = asked.map(async (isLetIn) => {
      let lastMs = 0;
      for (let sentMs = 0; sentMs < Math.max(lastMs, LAG_MAX_MS) + QUIET_MS; await Bun.sleep(USE_EVERY_MS)) {
        sentMs = performance.now() - endedMs;
        if (await isLetIn()) lastMs = sentMs;
      }
      return lastMs;
    });
    expect(Math.max(...(await Promise.all(last))), how).toBeLessThan(LAG_MAX_MS);
  }
});
