// A Dockerfile without a container engine: its build commands are run in a folder, and what its last stage copies becomes
// the root folder of a process that has the stage's user, environment and command. Mounts, as an engine makes them: the
// root is read-only, the volume is not. What the base image brings (the libraries of the C runtime) is this machine's.

import { chmodSync, chownSync, cpSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { output } from './command.ts';
import { ROOT } from './documents.ts';
import { diskFolder } from './folder.ts';
import { productionEnv } from './production.ts';

export interface Image {
  /** The root folder. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly volume: string;
  readonly entrypoint: readonly string[];
  readonly healthcheck: readonly string[];
  /** What runs a command in the image, as its user. To be run with an environment of its own. */
  command(words: readonly string[], env?: Readonly<Record<string, string>>): string[];
}

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

export async function buildImage(file: string): Promise<Image> {
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
  const entrypoint = JSON.parse(only('ENTRYPOINT'));
  await copyLibraries(join(root, entrypoint[0]), built, root);
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
    healthcheck: JSON.parse(only('HEALTHCHECK').replace(/^.*CMD /, '')),
    command(words, more = {}) {
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
