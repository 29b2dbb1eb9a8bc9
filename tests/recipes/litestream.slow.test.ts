// litestream.md, pasted as it stands: a copy beside two servers on a file, and its restoring. Servers and Litestream are killed
// meanwhile, and a backup checkpoints the log.

import { afterAll, expect, test } from 'bun:test';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import PACKAGE from '../../package.json';
import { createVerifier } from '../../src/doors/services/verifier.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { output, run } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand } from '../support/keys-command.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin, waitFor } from '../support/wait-for.ts';

const RECIPE = readDocument('tests/recipes/litestream.md');
const LITESTREAM = join(ROOT, 'node_modules/@flydotio/litestream-linux-x64');
const KEYS = 160;
/** Changes that no copy has. */
const LOST = 20;
const BOUND_MS = 1000;

const folder = temporaryFolder();
const DATABASE_URL = `file:${folder}/keys.db`;
const ports = freePorts(2);
const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL, LOG_LEVEL: 'warn', REVOCATION_LAG_MAX_MS: String(BOUND_MS) };
const inPlace = (text: string) =>
  text.replaceAll('/var/lib/mcp-key-server', folder).replaceAll('/mnt/other-disk', `${folder}/other-disk`);
const linesOf = (section: string, index = 0) => inPlace(RECIPE.codeBlock(section, 'sh', index));

/** Runs lines in the folder, where nobody answers what `keys restore` asks. */
async function paste(lines: string) {
  const keys = join(ROOT, 'src/commands/keys.ts');
  const bun = `bun() { shift 2; '${process.execPath}' --no-env-file '${keys}' "$@" $([ "$1" = restore ] && echo --yes); }\n`;
  const PATH = `${LITESTREAM}:${process.env.PATH}`;
  return run(['bash', '-euc', bun + lines], { cwd: folder, env: { ...env, PATH, PORT: String(ports[0]) } });
}

/** The database's, as `keys doctor` says it. */
const idIn = (said: string) => /\bid ([0-9a-f]+)/.exec(said)?.[1];

let litestream: Bun.Subprocess | undefined;
function startLitestream(): void {
  const [program = '', ...args] = linesOf('Copy').trim().split(' ');
  litestream = Bun.spawn([join(LITESTREAM, program), ...args], { cwd: folder, stdout: 'ignore', stderr: 'ignore' });
}
async function killLitestream(): Promise<void> {
  litestream?.kill('SIGKILL');
  await litestream?.exited;
}
afterAll(killLitestream);

/** Which keys the copy has now, and whether each is active. */
async function copied(): Promise<Map<string, boolean>> {
  const file = join(temporaryFolder(), 'copied.db');
  const { code } = await paste(linesOf('Restore').replace('restored.db', file).split('\n')[0] ?? '');
  if (code !== 0) return new Map(); // nothing yet
  const listed = jsonLines(await keysCommand({ DATABASE_URL: `file:${file}` }, ['list', '--json']));
  return new Map(listed.map(({ id, active }) => [id, active]));
}

test.skipIf(!existsSync(LITESTREAM))(
  'every key is in the copy, and after a restore a service refuses a key that is revoked then',
  async () => {
    const start = (port: number) => startServer({ env: { ...env, PORT: String(port) } });
    const servers: ServerProcess[] = await Promise.all(ports.map(start));
    const serverOf = (at: number) => servers[at % servers.length] as ServerProcess;
    async function restart(at: number): Promise<void> {
      await serverOf(at).kill();
      servers[at] = await start(ports[at] as number);
    }
    const alice = await userHeaders('alice');
    const create = async (name: string, at: number, scopes = ['read']) => {
      const { status, body } = await callOver(serverOf(at).url, 'create_api_key', { name, scopes }, alice);
      expect(status).toBe(200);
      return body as { id: string; key: string };
    };
    const use = async ({ key }: { key: string }) =>
      (await callOver(serverOf(0).url, 'get_data', {}, { 'x-api-key': key })).status;
    try {
      expect(await output([join(LITESTREAM, 'litestream'), 'version'], { cwd: folder })).toBe('v0.3.13\n');
      expect(RECIPE.text).toContain('0.3.13');
      expect(RECIPE.text).toContain(PACKAGE.devDependencies['@flydotio/litestream-linux-x64']);
      writeFileSync(join(folder, 'litestream.yml'), inPlace(RECIPE.codeBlock('Copy', 'yaml')));
      startLitestream();
      const before = await paste(linesOf('Restore', 1));
      const disturbances: Readonly<Record<number, () => unknown>> = {
        30: () => restart(0),
        60: async () => {
          await killLitestream();
          startLitestream();
        },
        90: async () => expect(await paste('bun run keys backup backup.db')).toMatchObject({ code: 0 }),
        120: () => restart(1),
        140: async () => {
          for (const server of servers) await server.stop(); // the last one checkpoints what is in the log
          for (const at of ports.keys()) servers[at] = await start(ports[at] as number);
        },
      };
      const service = await create('a service', 0, ['introspect']);
      const made: { id: string; key: string }[] = [];
      for (let at = 0; at < KEYS; at += 1) {
        await disturbances[at]?.();
        made.push(await create(`key ${at}`, at));
      }
      await waitFor(async () => (await copied()).size === KEYS + 1);
      expect([...(await copied()).keys()].sort()).toEqual([service, ...made].map(({ id }) => id).sort());

      const [kept, lost, ...others] = made as [(typeof made)[0], (typeof made)[0], ...typeof made];
      const onError = () => undefined; // its server goes away
      await using verifier = Object.assign(createVerifier({ url: serverOf(1).url, ...service, onError }), {
        [Symbol.asyncDispose]: () => verifier.close(),
      });
      const ask = async ({ key }: { key: string }) => {
        const checked = await verifier.verify(key);
        return checked.ok ? 200 : checked.status;
      };
      expect([await ask(kept), await ask(lost)]).toEqual([200, 200]);
      // What no copy has: the service has read these changes, and knows numbers that will be given again.
      await killLitestream();
      const late = await create('late', 0);
      expect(await ask(late)).toBe(200);
      for (const { id } of [lost, ...others.slice(0, LOST)])
        await callOver(serverOf(0).url, 'revoke_api_key', { keyId: id }, alice);
      await waitFor(async () => (await ask(lost)) === 401);

      const early = await paste(linesOf('Restore'));
      expect({ code: early.code, said: early.stderr }).toEqual({ code: 1, said: expect.stringMatching(/open/) });
      await Promise.all(servers.map((server) => server.kill()));
      const sinceMs = performance.now(); // from here on nothing proves what the service remembers
      const restoring = await paste(`rm -f restored.db*\n${linesOf('Restore')}`);
      expect(restoring).toMatchObject({ code: 0 });
      expect(restoring.stderr).toContain(lost.id);
      servers[0] = await start(ports[0] as number);
      startLitestream();
      const doctor = await paste(linesOf('Restore', 1));
      expect(doctor).toMatchObject({ code: 0 });
      expect(idIn(doctor.stdout)).not.toBe(idIn(before.stdout));
      expect(await use(lost)).toBe(200); // as the recipe says
      // The service's server is still away: the numbers that the service has read are given again, to other changes.
      for (const { id } of [kept, ...others.slice(0, LOST)])
        await callOver(serverOf(0).url, 'revoke_api_key', { keyId: id }, alice);
      servers[1] = await start(ports[1] as number);
      const decided = async (key: { key: string }) => {
        let status = 503;
        await waitFor(async () => {
          status = await ask(key);
          return status !== 503;
        });
        return status;
      };
      await Promise.all([kept, late].map((key) => refusedWithin(BOUND_MS, () => ask(key), { sinceMs })));
      expect(await decided(lost)).toBe(200);
      const last = others[LOST] as { id: string; key: string };
      expect(await decided(last)).toBe(200);
      await callOver(serverOf(0).url, 'revoke_api_key', { keyId: last.id }, alice);
      await refusedWithin(BOUND_MS, () => ask(last));

      // And it goes on with the new database.
      const later = await create('later', 1);
      await waitFor(async () => (await copied()).get(later.id) === true);
      expect((await copied()).get(kept.id)).toBe(false);
    } finally {
      for (const server of servers) await server.kill();
    }
  },
  180_000,
);
