// What a production install brings, counted: every package here runs with access to every key that is presented.

import { expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { dependencies, devDependencies, scripts } from '../../package.json';
import { productionEnv, productionFolder } from '../support/production.ts';

/** The README lists them. `@libsql/<platform>` stands for the native part, of which each platform has its own. */
const INSTALLED = [
  '@libsql/<platform>',
  '@libsql/client',
  '@libsql/core',
  '@libsql/hrana-client',
  '@libsql/isomorphic-ws',
  '@neon-rs/load',
  '@types/node',
  '@types/ws',
  '@valibot/to-json-schema',
  'detect-libc',
  'jose',
  'js-base64',
  'libsql',
  'promise-limit',
  'undici-types',
  'valibot',
  'ws',
];

test('a production install is four packages and what they need, and none that is for development', async () => {
  const folder = productionFolder();
  const [install = ''] = scripts.start.split(' && ');
  const child = Bun.spawn(['sh', '-c', install], { cwd: folder, env: productionEnv(folder), stderr: 'ignore' });
  expect(await child.exited).toBe(0);

  const installed = packagesIn(join(folder, 'node_modules'));
  expect(Object.keys(dependencies)).toEqual(['@libsql/client', '@valibot/to-json-schema', 'jose', 'valibot']);
  expect(Object.keys(devDependencies).filter((name) => installed.has(name))).toEqual([]);
  const platform = /^@libsql\/(darwin|linux|win32)-.*$/;
  const names = new Set([...installed].map((name) => name.replace(platform, '@libsql/<platform>')));
  expect([...names].sort()).toEqual(INSTALLED);
}, 60_000);

function packagesIn(folder: string): Set<string> {
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  return new Set(
    names.flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(folder, name)).map((part) => `${name}/${part}`) : [name],
    ),
  );
}
