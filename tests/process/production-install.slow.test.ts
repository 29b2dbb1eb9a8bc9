// What a production install brings, counted: every package here runs with access to every key that is presented.

import { expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { dependencies, devDependencies, scripts } from '../../package.json';
import { readDocument } from '../support/documents.ts';
import { productionEnv, productionFolder } from '../support/production.ts';

/** As SECURITY.md lists them: none is native. */
function listedPackages(): string[] {
  const said = readDocument('.github/SECURITY.md').section('Dependencies');
  return [...said.matchAll(/`([^`\s]+)`/g)].map(([, name = '']) => name);
}

test('a production install, as it is typed, brings the packages that SECURITY.md lists, and none for development', async () => {
  const folder = productionFolder();
  const typed = readDocument('src/start/README.md').codeBlock('Start', 'sh').trim().split('\n');
  expect(typed.filter((command) => !scripts.start.includes(command))).toEqual([]);
  const [install = ''] = typed;
  const child = Bun.spawn(['sh', '-c', install], {
    cwd: folder,
    env: productionEnv(folder),
    stdout: 'ignore',
    stderr: 'ignore',
  });
  expect(await child.exited).toBe(0);

  const installed = packagesIn(join(folder, 'node_modules'));
  expect(Object.keys(dependencies)).toEqual(['@libsql/client', '@valibot/to-json-schema', 'jose', 'valibot']);
  expect(Object.keys(devDependencies).filter((name) => installed.has(name))).toEqual([]);
  expect([...installed].sort()).toEqual(listedPackages().sort());
}, 180_000);

function packagesIn(folder: string): Set<string> {
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  return new Set(
    names.flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(folder, name)).map((part) => `${name}/${part}`) : [name],
    ),
  );
}
