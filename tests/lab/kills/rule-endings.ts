// How long the token of a rule is let in that has ended, and its child: they are presented all the time on both servers of a
// cluster, in each place of a key, while they end in one of ten ways.

import { join } from 'node:path';
import { exchange } from '../../support/children.ts';
import { userHeaders } from '../../support/client.ts';
import { type Cluster, callServer, operatorOf, served, useKey } from '../../support/cluster.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createIssuer, createKey, type Issuer } from '../../support/issuer.ts';
import { call, post } from '../../support/mcp.ts';
import { leaseOf, type Service } from '../../support/service.ts';

const AUDIENCE = 'workloads';
/** The default of REVOCATION_LAG_MAX_MS. */
export const LAG_MAX_MS = 1000;
/** A token is in ten places at once (five of two servers), and ten tokens end at once. */
const USE_EVERY_MS = 120;
/** So long nobody is let in, so that a late success would be seen. */
const QUIET_MS = 300;
/** The life of a key that expires: enough for a machine that does other things too. */
const LEFT_MS = 6000;
const SUBJECT_TOKEN = { subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };

/** A key with a rule, and what may be done to them. */
interface Made {
  readonly key: { readonly id: string; readonly expiresAt: number | null };
  readonly owner: string;
  readonly ruleId: string;
  readonly issuer: Issuer;
  keys(...args: string[]): Promise<string>;
  shell(sql: string): Promise<void>;
  tool(name: string): Promise<unknown>;
}

/** A child ends with its rule, not with the signature of the token that made it. */
const LEAVES_CHILD = 'the key set is replaced';

/** How a token ends. Resolves once that is acknowledged; with a number: when it will be, by performance.now(). */
const ENDINGS: Readonly<Record<string, (made: Made) => Promise<unknown>>> = {
  'the rule is removed': ({ keys, ruleId }) => keys('rule', 'remove', ruleId),
  'the rule is deleted by a database shell': ({ shell, ruleId }) => shell(`DELETE FROM rules WHERE id = '${ruleId}'`),
  'the key is revoked': ({ tool }) => tool('revoke_api_key'),
  'the key is deleted': ({ tool }) => tool('delete_api_key'),
  'the key expires': async ({ key }) => performance.now() + (key.expiresAt ?? 0) - Date.now(),
  'the key is narrowed': ({ keys, key }) => keys('update', key.id, '--scope', 'other'),
  'the key is bound to another server': ({ shell, key }) =>
    shell(`UPDATE api_keys SET resource = 'https://other.example' WHERE id = '${key.id}'`),
  'the owner is blocked': ({ keys, owner }) => keys('block', owner, '--yes'),
  'the owner is deleted': ({ keys, owner }) => keys('owner', owner, '--delete', '--yes'),
  async [LEAVES_CHILD]({ keys, key, issuer }) {
    const file = join(temporaryFolder(), 'jwks.json');
    await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256', 'first')).jwk] }));
    await keys('rule', 'add', key.id, ...termsOf(issuer, 'again'), '--jwks', file);
  },
};

const termsOf = ({ url }: Issuer, subject: string) => ['--issuer', url, '--subject', subject, '--audience', AUDIENCE];

interface Presented {
  readonly url: string;
  readonly token: string;
  readonly child: string;
  readonly service: Service;
}

/** Whether the token is let in, in each place of a key. */
const PLACES: Readonly<Record<string, (presented: Presented) => Promise<boolean>>> = {
  REST: async ({ url, token }) => (await useKey({ url }, token)) === 200,
  async '/mcp'({ url, token }) {
    const { status, body } = await post({ url }, call('get_data'), { authorization: `Bearer ${token}` });
    return status === 200 && body.result !== undefined && body.result.isError !== true;
  },
  '/verify': async ({ url, token }) =>
    (await fetch(`${url}/verify?scope=read`, { headers: { 'x-api-key': token } })).status === 200,
  async '/introspect'({ url, token, service }) {
    const { body } = await leaseOf({ url }, service, token, {});
    return body.active === true && body.scope.split(' ').includes('read');
  },
  'its child': async ({ url, child }) => (await useKey({ url }, child)) === 200,
};

/** A key of the cluster that asks about others. */
export async function serviceIn({ servers: [server] }: Cluster): Promise<Service> {
  if (server === undefined) throw new Error('a cluster without servers');
  const headers = await userHeaders('operator');
  const wanted = { name: 'service', scopes: ['introspect'] };
  return (await served(() => callServer(server, 'create_api_key', wanted, headers))).body;
}

export interface Ended {
  readonly how: string;
  /** From the end to the last success anywhere; negative: that was so long before it. */
  readonly lastSuccessMs: number;
}

/** Makes a key with a rule and a child for each ending, and ends them, at another server in odd rounds. */
export const ruleEndings = (cluster: Cluster, service: Service, round: number): Promise<Ended[]> =>
  Promise.all(Object.entries(ENDINGS).map(([how, end]) => ended(cluster, service, round, how, end)));

async function ended(
  cluster: Cluster,
  service: Service,
  round: number,
  how: string,
  end: (typeof ENDINGS)[string],
): Promise<Ended> {
  const { servers } = cluster;
  const [maker, ender] = [servers[0], servers[round % servers.length]];
  if (maker === undefined || ender === undefined) throw new Error('a cluster without servers');
  await using issuer = await createIssuer();
  const subject = `${how} ${round}`;
  const made = await make(cluster, { maker, ender }, issuer, subject, how === 'the key expires');
  const nowS = Math.floor(Date.now() / 1000);
  const token = await issuer.token({ sub: subject, aud: AUDIENCE, iat: nowS, exp: nowS + 3600 });
  const child = await childFor(maker, token);
  const asked = servers.flatMap(({ url }) =>
    Object.entries(PLACES)
      .filter(([place]) => place !== 'its child' || how !== LEAVES_CHILD)
      .map(
        ([, isLetIn]) =>
          () =>
            isLetIn({ url, token, child, service }),
      ),
  );
  let endedAtMs = Number.POSITIVE_INFINITY;
  let isReady = 0;
  const last = asked.map(async (isLetIn) => {
    for (let lastMs = Number.NEGATIVE_INFINITY; ; await Bun.sleep(USE_EVERY_MS)) {
      const sentMs = performance.now();
      if (await isLetIn()) {
        if (lastMs === Number.NEGATIVE_INFINITY) isReady += 1;
        lastMs = sentMs;
      }
      if (sentMs > Math.max(lastMs, endedAtMs + LAG_MAX_MS) + QUIET_MS) return lastMs;
    }
  });
  const isOver = () => Date.now() > (made.key.expiresAt ?? Number.POSITIVE_INFINITY); // before a slow machine was ready
  while (isReady < asked.length && !isOver()) await Bun.sleep(USE_EVERY_MS);
  const endsAtMs = await end(made);
  endedAtMs = typeof endsAtMs === 'number' ? endsAtMs : performance.now();
  const lastSuccessMs = Math.max(...(await Promise.all(last))) - endedAtMs;
  await made.shell(`DELETE FROM rules WHERE issuer = '${issuer.url}'`); // a database has 50 issuers at most
  return { how, lastSuccessMs };
}

/** The server hears of the rule within the bound. */
async function childFor(server: { readonly url: string }, token: string): Promise<string> {
  for (;;) {
    const { status, body } = await exchange(server, token, SUBJECT_TOKEN);
    if (status === 200) return body.access_token;
    await Bun.sleep(USE_EVERY_MS);
  }
}

async function make(
  cluster: Cluster,
  { maker, ender }: { readonly maker: { readonly url: string }; readonly ender: { readonly url: string } },
  issuer: Issuer,
  subject: string,
  expires: boolean,
): Promise<Made> {
  const owner = `owner of ${subject}`;
  const headers = await userHeaders(owner);
  const wanted = { name: 'k', scopes: ['read'], ...(expires && { expiresInDays: LEFT_MS / 86_400_000 }) };
  const { body: key } = await served(() => callServer(maker, 'create_api_key', wanted, headers));
  const operator = operatorOf(cluster);
  return {
    ...operator,
    key,
    owner,
    issuer,
    ruleId: await operator.keys('rule', 'add', key.id, ...termsOf(issuer, subject)),
    tool: (name) => served(() => callServer(ender, name, { keyId: key.id }, headers)),
  };
}
