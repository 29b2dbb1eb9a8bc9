// The image, its compose file and its settings for Fly. There may be no container engine, so the files of the Dockerfile
// are run in a root folder of their own, as its user, with everything but the volume read-only.

import { beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseConfig } from '../../src/start/package/index.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { output, run } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { productionEnv } from '../support/production.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { canMount } from '../support/small-disk.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { transportOf } from '../support/transports.ts';

const RECIPES = join(ROOT, 'tests/recipes');
const PROXIED = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' };

// A Dockerfile without a container engine: its build commands are run in a folder, and what its last stage copies becomes
// the root folder of a process that has the stage's user, environment and command. Mounts, as an engine makes them: the
// root is read-only, the volume is not. What the base image brings (the libraries of the C runtime) is this machine's.

interface Line {
  readonly instruction: string;
  readonly rest: string;
}

/** The instructions of each stage. */
function stagesOf(file: string): Line[][] {
  const stages: Line[][] = [];
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, instruction = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    if (instruction === 'FROM') stages.push([]);
    else if (instruction !== '') stages.at(-1)?.push({ instruction, rest });
  }
  return stages;
}

async function buildImage(file: string) {
  const [build = [], final = []] = stagesOf(file);
  const all = (name: string) => final.flatMap(({ instruction, rest }) => (instruction === name ? [rest] : []));
  const only = (name: string) => all(name)[0] ?? '';
  const built = diskFolder();
  for (const { instruction, rest } of build) {
    if (instruction === 'COPY') {
      const paths = rest.split(' ');
      const to = paths.pop() ?? '';
      for (const from of paths) {
        cpSync(join(ROOT, from), join(built, to.endsWith('/') ? join(to, from) : to), { recursive: true });
      }
    }
    if (instruction === 'RUN') await output(['sh', '-c', rest], { cwd: built, env: productionEnv(built) });
  }

  const root = diskFolder();
  chmodSync(root, 0o755); // its user is another one
  const user = only('USER');
  for (const copied of all('COPY')) {
    const [to = '', from = ''] = copied.split(' ').reverse();
    cpSync(join(built, from.replace('/build/', '/')), join(root, to), { recursive: true });
    const [, uid, gid] = /--chown=(\d+):(\d+)/.exec(copied) ?? [];
    if (uid !== undefined) chownSync(join(root, to), Number(uid), Number(gid));
  }
  const entrypoint: string[] = JSON.parse(only('ENTRYPOINT'));
  await copyLibraries(join(root, entrypoint[0] ?? ''), built, root);
  for (const folder of ['proc', 'dev', 'tmp']) mkdirSync(join(root, folder));

  const volume = only('VOLUME');
  const env = Object.fromEntries(
    only('ENV')
      .split(' ')
      .map((setting) => setting.split('=') as [string, string]),
  );
  return {
    root,
    env,
    volume,
    entrypoint,
    healthcheck: JSON.parse(only('HEALTHCHECK').replace(/^.*CMD /, '')) as string[],
    /** What runs a command in the image, as its user. To be run with an environment of its own. */
    command(words: readonly string[], more: Readonly<Record<string, string>> = {}) {
      const writable = join(root, volume);
      const mounts = [
        `mount --bind ${root} ${root}`,
        `mount -o remount,ro,bind ${root}`,
        `mount --bind ${writable} ${writable}`,
        `mount -o remount,rw,bind ${writable}`,
        `mount -t proc proc ${root}/proc`,
        `mount --bind /dev ${root}/dev`,
      ];
      const settings = Object.entries({ ...env, ...more }).map(([name, value]) => `${name}=${value}`);
      const chroot = ['env', '-i', ...settings, '/usr/sbin/chroot', `--userspec=${user}`, '--groups=', root, ...words];
      return ['unshare', '--mount', 'sh', '-c', `${mounts.join(' && ')} && exec "$@"`, 'sh', ...chroot];
    },
  };
}

/** The libraries that an executable and the native parts beside it ask for. */
async function copyLibraries(executable: string, built: string, root: string): Promise<void> {
  const natives = [...new Bun.Glob('node_modules/@libsql/*gnu*/*.node').scanSync(built)].map((path) =>
    join(built, path),
  );
  const asked = await output(['ldd', executable, ...natives], { cwd: root });
  for (const [path] of asked.matchAll(/\/lib\S+/g)) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    cpSync(path, join(root, path), { dereference: true });
  }
}

const isPossible = canMount();
if (!isPossible) console.warn('skipped: the image in a root folder of its own, which needs root and mounts');

describe.skipIf(!isPossible)('the image', () => {
  let image: Awaited<ReturnType<typeof buildImage>>;
  beforeAll(async () => {
    image = await buildImage(join(RECIPES, 'Dockerfile'));
    fill(image.root, { 'tools/list-orders.ts': readDocument('README.md').codeBlock('A tool of your own', 'ts') });
  }, 180_000);

  const start = (env: Record<string, string> = {}) =>
    startServer({ command: image.command(image.entrypoint, { PORT: '0', ...env }) });
  const production = { JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', PUBLIC_URL: 'https://keys.example' };
  const health = ({ url }: ServerProcess) =>
    run(image.command(image.healthcheck, { ...production, PORT: new URL(url).port }), { cwd: image.root });

  test('serves as a user without rights, writes to its volume alone, and keeps keys over a kill -9', async () => {
    await using server = await start(production);
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t65532\t65532\t65532\t65532$/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(server.url).toStartWith('http://0.0.0.0:');
    const headers = { ...(await userHeaders('alice')), ...PROXIED };
    const created = await callOver(server.url, 'create_api_key', { name: 'n', scopes: ['read:orders'] }, headers);
    const key = { 'x-api-key': created.body.key, ...PROXIED };
    for (const transport of [0, 1, 3]) {
      const called = await transportOf(transport, server.url)('list_orders', {}, key);
      expect(called).toMatchObject({ kind: 'ok', output: { owner: 'alice' } });
    }
    expect(await health(server)).toEqual({ code: 0, stdout: '', stderr: '' });
    await server.kill();
    expect((await health(server)).code).toBe(1);

    await using again = await start(production);
    expect((await callOver(again.url, 'list_orders', {}, key)).body.owner).toBe('alice');
    expect(await again.stop()).toBe(0);
    const written = readdirSync(join(image.root, image.volume));
    expect(written.filter((name) => !name.startsWith('keys.db'))).toEqual([]);
    expect(readdirSync(join(image.root, 'tmp'))).toEqual([]);
    const [program = ''] = image.entrypoint;
    const keys = (words: readonly string[], env = {}) =>
      run(image.command([program, 'keys', ...words], env), { cwd: image.root });
    expect((await keys(['backup', '/data/keys-backup.db'], production)).code).toBe(0);
    expect(statSync(join(image.root, image.volume, 'keys-backup.db')).size).toBeGreaterThan(0);
    // A container for the command alone has only the image's variables.
    expect(await keys(['restore', '/data/keys-backup.db', '--yes'])).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('keys restored: 1\n'),
    });
    expect(statSync(join(image.root, image.volume, 'keys.db')).uid).toBe(65532);
  });

  test('does not start without a way to verify users', async () => {
    const { code, stderr } = await run(image.command(image.entrypoint), { cwd: image.root });
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('JWT_SECRET: expected') });
  });
});

/** The environment that a compose file gives, with `set` in the caller's. */
function composeEnv(environment: Readonly<Record<string, string>>, set: Readonly<Record<string, string>>) {
  const fill = (value: string) =>
    value.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_, name, kind, text) => set[name] ?? (kind === '-' ? text : ''));
  return Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, fill(String(value))]));
}

describe('the compose file', () => {
  // biome-ignore lint/suspicious/noExplicitAny: a document read by paths
  const { services } = Bun.YAML.parse(readFileSync(join(RECIPES, 'compose.yaml'), 'utf8')) as any;

  test('builds from files that are there, and gives settings that start the server', () => {
    const { build, environment } = services.keys;
    const context = join(RECIPES, build.context);
    expect(context).toBe(ROOT);
    expect(existsSync(join(context, build.dockerfile))).toBe(true);
    const trial = parseConfig(composeEnv(environment, { JWT_SECRET: TEST_SECRET }));
    expect(trial).toMatchObject({ ok: true, value: { database: { mode: 'remote', url: 'http://database:8080' } } });
    const set = {
      JWT_SECRET: TEST_SECRET,
      NODE_ENV: 'production',
      TRUST_PROXY: '1',
      PUBLIC_URL: 'https://keys.example',
    };
    expect(parseConfig(composeEnv(environment, set))).toMatchObject({ ok: true, value: { production: true } });
    expect(parseConfig(composeEnv(environment, {}))).toMatchObject({
      ok: true,
      value: { jwt: { kind: 'dev-secret' } },
    });
  });

  test('gives the server no right that it does not need, and the database no door to the outside', () => {
    expect(services.keys).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
    expect(services.database.ports).toBeUndefined();
  });
});

test('the settings for Fly start the server in production, behind two proxies', () => {
  // biome-ignore lint/suspicious/noExplicitAny: a document read by paths
  const fly = Bun.TOML.parse(readFileSync(join(RECIPES, 'fly.toml'), 'utf8')) as any;
  expect(existsSync(join(RECIPES, fly.build.dockerfile))).toBe(true);
  const secrets = { JWT_SECRET: TEST_SECRET, PUBLIC_URL: 'https://keys.fly.dev', NODE_ENV: 'production' };
  expect(parseConfig({ ...fly.env, ...secrets })).toMatchObject({ ok: true, value: { trustProxy: 2 } });
  expect(fly.mounts.destination).toBe('/data');
  expect(fly.vm).toEqual([{ size: 'shared-cpu-1x', memory: '512mb' }]); // by default Fly gives 256 MB
  expect(fly.http_service.checks[0].path).toBe('/mcp/health');
});

test.each([
  ['Dockerfile', /--stop-timeout (\d+) /],
  ['compose.yaml', /stop_grace_period: (\d+)s/],
  ['fly.toml', /kill_timeout = (\d+)/],
  ['mcp-key-server.service', /TimeoutStopSec=(\d+)/],
  ['mcp-key-server@.service', /TimeoutStopSec=(\d+)/],
])('%s gives the server the time to finish what has begun', (file, wait) => {
  const [, seconds] = wait.exec(readFileSync(join(RECIPES, file), 'utf8')) ?? [];
  expect(Number(seconds)).toBeGreaterThanOrEqual(15);
});

test('a backup is fetched from the container and the folder that the recipe makes, and restored there', () => {
  const file = readFileSync(join(RECIPES, 'Dockerfile'), 'utf8');
  const [, tag] = /docker build .* -t (\S+) /.exec(file) ?? [];
  const [, mount] = / -v (\S+:\/data) /.exec(file) ?? [];
  const [, name] = /docker run --name (\S+) /.exec(file) ?? [];
  const [, program] = /^ENTRYPOINT \["(.*)"\]$/m.exec(file) ?? [];
  const [, volume] = /^VOLUME (.*)$/m.exec(file) ?? [];
  const { text } = readDocument('src/start/README.md');
  expect(text).toContain(`\`docker exec ${name} ${program} keys backup ${volume}/keys-backup.db\``);
  expect(text).toContain(`\`docker cp ${name}:${volume}/keys-backup.db .\``);
  expect(text).toContain(`docker run --rm -it -v ${mount} ${tag} keys restore ${volume}/keys-backup.db\``);
});

test('what the build copies, and nothing else, is sent to the engine', () => {
  const sent = [...(readFileSync(join(RECIPES, 'Dockerfile.dockerignore'), 'utf8').match(/(?<=^!).+$/gm) ?? [])];
  const copied = [...readFileSync(join(RECIPES, 'Dockerfile'), 'utf8').matchAll(/^COPY (?!--from)(.+) \S+$/gm)];
  expect(sent.sort()).toEqual(copied.flatMap(([, paths = '']) => paths.split(' ')).sort());
});
