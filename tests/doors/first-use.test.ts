// A door, or another part, that is loaded at its first use, when its files can't be loaded, or have changed under the running
// server: 500 for that request, one line that says what to do, and everything else goes on.

import { describe, expect, test } from 'bun:test';
import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXCHANGE } from '../support/children.ts';
import { userHeaders } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { diskFolder, temporaryFolder } from '../support/folder.ts';
import { postModern } from '../support/mcp.ts';
import { logOf, type Runtime, type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { copyOfSource } from '../support/source.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

/** What is asked first of a door; `file` is loaded only then. */
interface FirstUse {
  readonly path: string;
  /** What is posted; without it, a stream is opened. */
  readonly form?: string;
  /** What the form is, if it is none. */
  readonly type?: string;
  readonly file: string;
}

const DOORS: Readonly<Record<string, FirstUse>> = {
  page: { path: '/keys/update', form: '{}', type: 'application/json', file: 'own-keys.ts' },
  services: { path: '/introspect', form: 'token=x', file: 'routes.ts' },
  children: {
    path: '/token',
    form: `grant_type=${EXCHANGE}&subject_token=x`,
    file: 'exchange.ts',
  },
  sse: { path: '/sse', file: 'sse.ts' },
};

const RUNTIMES: readonly Runtime[] = rows(['bun', 'deno'], 1);

const copyFor = (runtime: Runtime): string => copyOfSource(runtime === 'deno' ? diskFolder() : temporaryFolder());

async function start(root: string, runtime: Runtime): Promise<ServerProcess> {
  const server = await startServer({ root, runtime, env: { JWT_SECRET: TEST_SECRET } });
  await untilOpen(server);
  return server;
}

const errors = (server: ServerProcess) => logOf(server).filter(({ level }) => level === 'error');

async function isAlive({ url }: ServerProcess): Promise<boolean> {
  const listed = await fetch(`${url}/tools/list_api_keys`, { method: 'POST', headers: await userHeaders('alice') });
  return listed.ok && (await fetch(`${url}/mcp/health`)).ok;
}

/** Asserts that the server goes on, and that its log says once to restart it, as files of this folder have changed. */
async function expectToldToRestart(server: ServerProcess, folder: string): Promise<void> {
  await waitFor(() => errors(server).length === 1);
  expect(errors(server)).toMatchObject([{ event: 'internal error', requestId: expect.any(String) }]);
  expect(errors(server)[0].error).toStartWith(
    `Error: ${folder}: its files have changed since the start; restart the server`,
  );
  expect(await isAlive(server)).toBe(true);
}

describe.each(RUNTIMES.flatMap((runtime) => Object.keys(DOORS).map((door) => [runtime, door] as const)))(
  'on %s, %s',
  (runtime, door) => {
    const {
      path,
      form,
      file,
      type = 'application/x-www-form-urlencoded',
    }: FirstUse = DOORS[door] ?? { path: '', file: '' };

    const ask = async ({ url }: ServerProcess) => {
      const headers = { 'content-type': type };
      const response = await fetch(url + path, form === undefined ? {} : { method: 'POST', headers, body: form });
      const isStream = response.ok && form === undefined;
      return [response.status, await (isStream ? response.body?.cancel() : response.json())] as const;
    };

    test('whose files have changed says to restart; as they were, it opens', async () => {
      const root = copyFor(runtime);
      const changed = join(root, 'src/doors', door, file);
      const was = join(root, 'as-it-was.ts');
      await using server = await start(root, runtime);
      renameSync(changed, was);
      writeFileSync(changed, `${readFileSync(was, 'utf8')}// another version\n`);
      const [status, body] = await ask(server);
      expect(status).toBe(500);
      expect(JSON.stringify(body)).not.toContain('restart');
      await expectToldToRestart(server, `doors/${door}`);
      renameSync(was, changed);
      const opened = await Promise.all([ask(server), ask(server), ask(server)]);
      for (const [later] of opened) expect(later).toBeLessThan(500);
    }, 180_000);

    test('that can not be loaded is 500, and everything else goes on', async () => {
      const root = copyFor(runtime);
      rmSync(join(root, 'src/doors', door, file));
      await using server = await start(root, runtime);
      expect((await ask(server))[0]).toBe(500);
      await waitFor(() => errors(server).length === 1);
      expect(await isAlive(server)).toBe(true);
      expect((await ask(server))[0]).toBe(500);
    }, 180_000);
  },
);

test.each([
  ['a user token', 'src/users/check-token.ts', '/tools/list_api_keys'],
  ['the preview of widgets', 'src/pages/widgets/preview.ts', '/widgets/preview'],
  ['the description of tools', 'src/api/openapi.ts', '/openapi.json'],
])(
  'on bun, what could not be loaded for %s is loaded with the next one',
  async (_what, name, path) => {
    const root = copyFor('bun');
    const file = join(root, name);
    const away = join(root, 'away.ts');
    await using server = await start(root, 'bun');
    const init = path.startsWith('/tools/') ? { method: 'POST', headers: await userHeaders('alice') } : {};
    const ask = async () => (await fetch(server.url + path, init)).status;
    renameSync(file, away);
    expect(await ask()).toBe(500);
    renameSync(away, file);
    expect(await ask()).toBe(200);
  },
  180_000,
);

test.each(RUNTIMES)(
  'on %s, what reads the state of a call says to restart where the files of its room have changed',
  async (runtime) => {
    const root = copyFor(runtime);
    await using server = await start(root, runtime);
    appendFileSync(join(root, 'src/mcp/request-states.ts'), '// another version\n');
    const asked = { name: 'list_api_keys', arguments: {}, requestState: 'x' };
    const { body } = await postModern(server, 'tools/call', asked, { headers: await userHeaders('alice') });
    expect(body.error).toMatchObject({ code: -32603 });
    await expectToldToRestart(server, 'mcp');
  },
  180_000,
);

test.each(RUNTIMES)(
  'on %s, the preview of widgets says to restart where their files have changed, as the widgets do',
  async (runtime) => {
    const root = copyFor(runtime);
    await using server = await start(root, runtime);
    appendFileSync(join(root, 'src/pages/widgets/preview.ts'), '// another version\n');
    expect((await fetch(`${server.url}/widgets/preview`)).status).toBe(500);
    await expectToldToRestart(server, 'pages/widgets');
  },
  180_000,
);
