// What operators copy for workloads: a GitHub job and a GitHub agent, with a stand-in for GitHub's endpoint, and a pod whose
// issuer nobody reaches. Rules are made by the very lines that the recipes have, and https://tools.example is the test's app.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { decodeJwt } from 'jose';
import { makeCertificate } from '../support/certificate.ts';
import { CURL_7_81, noting, output, run } from '../support/command.ts';
import { databaseOf } from '../support/database-client.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { createIssuer } from '../support/issuer.ts';
import { createTestApp } from '../support/test-app.ts';

/** Each starts a dozen programs. */
setDefaultTimeout(180_000);

const PUBLIC_URL = 'https://tools.example';
const GITHUB = 'https://token.actions.githubusercontent.com';
const CLUSTER = 'https://kubernetes.default.svc.cluster.local';
const ID = /^[0-9a-f]{32}\n$/;
const MISSING = ['bash', 'curl', 'jq', 'mkfifo'].some((program) => Bun.which(program) === null);

const read = (file: string) => readFileSync(join(import.meta.dir, 'workloads', file), 'utf8');
/** The lines of a recipe's first comment that are to be typed. */
const typedIn = (recipe: string) => [...recipe.matchAll(/^# {3}(.*)$/gm)].map(([, line]) => line).join('\n');
/** The lines that make the key and the rule of a job. */
const RULE_OF_JOB = readDocument('src/keys/README.md').codeBlock('Workloads', 'sh');

/** An app behind HTTPS, and a platform that signs tokens for workloads as `issuer`. */
async function startPlatform(issuer: string) {
  const platform = await createIssuer();
  const app = await createTestApp({ store: 'embedded', env: { PUBLIC_URL } });
  const { cert, keyFile } = makeCertificate();
  const front = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert, key: readFileSync(keyFile, 'utf8') },
    fetch: (request) => fetch(new URL(new URL(request.url).pathname, app.url), request),
  });
  const home = temporaryFolder();
  writeFileSync(join(home, '.curlrc'), `connect-to = "tools.example:443:127.0.0.1:${front.port}"\ninsecure\n`);
  const programs = temporaryFolder();
  const addProgram = (name: string, lines: string) =>
    writeFileSync(join(programs, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  addProgram('bun', `shift 2\nexec '${process.execPath}' --no-env-file '${join(ROOT, 'src/commands/keys.ts')}' "$@"`);
  const env = { PATH: `${programs}:${process.env.PATH}`, HOME: home };
  const jwks = JSON.stringify({ keys: platform.keys.map(({ jwk }) => jwk) });
  return {
    app,
    env,
    jwks,
    addProgram,
    /** Types lines of an operator, beside the app, which has heard of it afterwards. Returns what they print. */
    async type(lines: string, KEY_ID = ''): Promise<string> {
      const DATABASE_URL = databaseOf(app);
      const printed = await output(['bash', '-euc', lines], {
        cwd: home,
        env: { ...env, KEY_ID, DATABASE_URL, PUBLIC_URL },
      });
      app.clock.advance(60_000);
      return printed;
    },
    /** A token of the platform, for five minutes. */
    token(claims: Record<string, unknown>): Promise<string> {
      const nowS = Math.floor(app.clock.nowMs() / 1000);
      return platform.token({ iss: issuer, iat: nowS, nbf: nowS, exp: nowS + 300, ...claims });
    },
    /** An app's key set of the issuer is known before a recipe's rules are made: nobody reaches GitHub from here. */
    async trust(): Promise<void> {
      const file = join(home, 'known.json');
      writeFileSync(file, jwks);
      const { id } = await app.createKey('other');
      const terms = ['--subject', 'repo:other/app:ref:x', '--claim', 'repository_id=1', '--jwks', file];
      await app.keys('rule', 'add', id, '--issuer', issuer, ...terms);
    },
    async [Symbol.asyncDispose]() {
      await front.stop(true);
      await app.close();
      await platform[Symbol.asyncDispose]();
    },
  };
}

const OF_ACME = { repository: 'acme/app', repository_owner: 'acme', repository_owner_id: '123456' };

/** GitHub, whose jobs run with these claims. */
async function startGitHub(claims: Record<string, string>) {
  const platform = await startPlatform(GITHUB);
  await platform.trust();
  const audiences: string[] = [];
  const endpoint = Bun.serve({
    port: 0,
    async fetch(request) {
      const { searchParams } = new URL(request.url);
      const isOfJob = request.headers.get('authorization') === 'bearer of the job';
      const aud = searchParams.get('audience');
      if (!isOfJob || searchParams.get('api-version') !== '2.0' || aud === null)
        return new Response('no', { status: 403 });
      audiences.push(aud);
      return Response.json({ value: await platform.token({ aud, jti: crypto.randomUUID(), ...claims }) });
    },
  });
  return {
    ...platform,
    /** For which audiences tokens were asked for. */
    audiences,
    /** What each job with `id-token: write` has. */
    job: {
      ACTIONS_ID_TOKEN_REQUEST_URL: `${endpoint.url}token?api-version=2.0`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'of the job',
    },
    async [Symbol.asyncDispose]() {
      await endpoint.stop(true);
      await platform[Symbol.asyncDispose]();
    },
  };
}

test.skipIf(MISSING)('a GitHub job calls a tool in its environment, and no pull request or namesake does', async () => {
  // biome-ignore lint/suspicious/noExplicitAny: YAML of any shape
  const { permissions, jobs } = Bun.YAML.parse(read('github-job.yml')) as any;
  const { environment, env, steps } = jobs.stock;
  expect([permissions, steps[0].shell]).toEqual([{ 'id-token': 'write' }, 'bash']);
  const claims = { ...OF_ACME, sub: '' };
  await using github = await startGitHub(claims);
  expect(await github.type(RULE_OF_JOB)).toMatch(ID);
  const script = join(temporaryFolder(), 'step.sh');
  writeFileSync(script, steps[0].run);
  const PATH = noting('curl', CURL_7_81).path;
  /** As GitHub runs a step with `shell: bash`. */
  async function runJob(changed: Partial<typeof claims>) {
    Object.assign(claims, OF_ACME, changed);
    const { code, stdout } = await run(['bash', '--noprofile', '--norc', '-eo', 'pipefail', script], {
      cwd: temporaryFolder(),
      env: { ...github.env, ...github.job, ...env, PATH },
    });
    const [masked = '', said = ''] = stdout.split('\n');
    expect(masked).toStartWith('::add-mask::ey');
    return { code, said: JSON.parse(said) };
  }
  const sub = `repo:acme/app:environment:${environment}`;
  const refused = { code: 22, said: { code: 'invalid_api_key' } };
  expect(await runJob({ sub })).toMatchObject({ code: 0, said: { owner: 'acme' } });
  expect(await runJob({ sub: 'repo:acme/app:pull_request' })).toMatchObject(refused);
  expect(await runJob({ sub, repository_owner_id: '654321' })).toMatchObject(refused);
  // A newer repository's tokens have ids in the subject.
  const [, withIds = ''] = /`(repo:acme@\S+)`/.exec(readDocument('src/keys/README.md').text) ?? [];
  expect(await github.type(RULE_OF_JOB.replace(/--subject .*/, `--subject ${withIds}`))).toMatch(ID);
  expect(await runJob({ sub: withIds })).toMatchObject({ code: 0, said: { owner: 'acme' } });
  expect(await runJob({ sub: withIds.replace('@123456', '@654321') })).toMatchObject(refused);
  expect(github.audiences).toEqual(Array(5).fill(PUBLIC_URL));
});

/** As GitHub's gateway sends an agent's requests: with a token of the job for this server, another in the last minute. */
function gateway(
  github: Awaited<ReturnType<typeof startGitHub>>,
  server: { url: string; auth: { audience?: string } },
) {
  const { app, job } = github;
  let token = '';
  return async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const nowS = app.clock.nowMs() / 1000;
    if (token === '' || (decodeJwt(token).exp ?? 0) - nowS < 60) {
      const asked = new URL(job.ACTIONS_ID_TOKEN_REQUEST_URL);
      asked.searchParams.set('audience', server.auth.audience ?? server.url);
      const headers = { authorization: `bearer ${job.ACTIONS_ID_TOKEN_REQUEST_TOKEN}` };
      token = ((await (await fetch(asked, { headers })).json()) as { value: string }).value;
    }
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${token}`);
    return fetch(String(url).replace(PUBLIC_URL, app.url), { ...init, headers });
  };
}

describe.skipIf(MISSING)(
  'a GitHub agent calls tools with its job’s token, and with the next one in the same session',
  () => {
    const recipe = read('github-agent.yml');
    // biome-ignore lint/suspicious/noExplicitAny: YAML of any shape
    const head = Bun.YAML.parse(recipe) as any;
    const { type, url, allowed, auth } = head['mcp-servers'].tools;
    const INFO = { name: 'agent', version: '1' };
    type Send = ReturnType<typeof gateway>;

    test.each([
      [
        'SDK v1',
        async (fetch: Send) => {
          const client = new ClientV1(INFO);
          await client.connect(new HttpV1(new URL(url), { fetch }) as never); // its optional members are typed otherwise
          return client;
        },
      ],
      [
        'SDK v2',
        async (fetch: Send) => {
          const client = new ClientV2(INFO);
          await client.connect(new HttpV2(new URL(url), { fetch }));
          return client;
        },
      ],
    ])('%s', async (_, connect) => {
      await using github = await startGitHub({ ...OF_ACME, sub: 'repo:acme/app:ref:refs/heads/main' });
      const { app } = github;
      expect([type, auth.type, head.permissions['id-token']]).toEqual(['http', 'github-oidc', 'write']);
      const key = await app.createKey('acme');
      expect(await github.type(typedIn(recipe), key.id)).toMatch(ID);
      const client = await connect(gateway(github, { url, auth }));
      const use = () => client.callTool({ name: allowed[0], arguments: {} });
      expect(await use()).toMatchObject({ structuredContent: { owner: 'acme' } });
      app.clock.advance(250_000);
      expect(await use()).toMatchObject({ structuredContent: { owner: 'acme' } });
      expect(github.audiences).toEqual([url, url]);
      await client.close();
    });
  },
);

test.skipIf(MISSING)('a pod reads its token for each call, and its issuer is never asked', async () => {
  await using cluster = await startPlatform(CLUSTER);
  const { app } = cluster;
  const recipe = read('pod.yaml');
  // biome-ignore lint/suspicious/noExplicitAny: YAML of any shape
  const { metadata, spec } = Bun.YAML.parse(recipe) as any;
  const [container] = spec.containers;
  const { serviceAccountToken } = spec.volumes[0].projected.sources[0];
  const { TOOLS_URL, TOKEN_FILE } = Object.fromEntries(
    container.env.map(({ name, value }: { name: string; value: string }) => [name, value]),
  );
  expect(TOKEN_FILE).toBe(`${container.volumeMounts[0].mountPath}/${serviceAccountToken.path}`);
  expect(serviceAccountToken.audience).toBe(TOOLS_URL);

  // The cluster's API, which kubectl reaches and the key server doesn't.
  const served: Readonly<Record<string, string>> = {
    '/openid/v1/jwks': cluster.jwks,
    '/.well-known/openid-configuration': JSON.stringify({ issuer: CLUSTER, jwks_uri: `${CLUSTER}/openid/v1/jwks` }),
  };
  await using api = Bun.serve({ port: 0, fetch: ({ url }) => new Response(served[new URL(url).pathname]) });
  cluster.addProgram('kubectl', `test "$1 $2" = 'get --raw' && exec curl -sS --fail '${api.url.origin}'"$3"`);
  expect(await cluster.type(typedIn(recipe))).toMatch(ID);

  const folder = temporaryFolder();
  const file = join(folder, 'token');
  const gate = join(folder, 'gate');
  await output(['mkfifo', gate], { cwd: folder });
  // A minute ends when the test says so.
  cluster.addProgram('sleep', `test "$1" = 60 && read -r _ < '${gate}'`);
  /** As the kubelet does: in one step. */
  async function project(): Promise<void> {
    const sub = `system:serviceaccount:${metadata.namespace}:${spec.serviceAccountName}`;
    const nowS = Math.floor(app.clock.nowMs() / 1000);
    const { audience, expirationSeconds } = serviceAccountToken;
    writeFileSync(`${file}.new`, await cluster.token({ sub, aud: [audience], exp: nowS + expirationSeconds }));
    renameSync(`${file}.new`, file);
  }
  await project();
  const pod = Bun.spawn([...container.command, container.args[0]], {
    cwd: folder,
    env: { ...cluster.env, TOOLS_URL, TOKEN_FILE: file },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const said = pod.stdout.getReader();
  const next = async () => JSON.parse(new TextDecoder().decode((await said.read()).value));
  try {
    expect(await next()).toMatchObject({ owner: 'acme' });
    app.clock.advance(3_600_000);
    await project();
    writeFileSync(gate, '\n');
    expect(await next()).toMatchObject({ owner: 'acme' });
    app.clock.advance(3_600_000); // and nobody replaces the token
    writeFileSync(gate, '\n');
    expect(await next()).toMatchObject({ code: 'invalid_api_key' });
    expect(await pod.exited).toBe(22);
  } finally {
    pod.kill('SIGKILL');
    await pod.exited;
  }
});
