// `bun run build`: builds the package in dist/, as JavaScript and declarations, because Deno and Node refuse TypeScript
// in packages. `bun run build --compile`: builds the self-contained executable dist/mcp-key-server.

import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SERVER_NAME } from '../ground/server-info.ts';
import { command, endWith, mainOf } from './command.ts';
import { CommandError } from './io.ts';
import { flag } from './options.ts';

const ROOT = join(import.meta.dirname, '../..');
const SRC = join(ROOT, 'src');
const CLI = join(SRC, 'cli.ts');
const DIST = join(ROOT, 'dist');
const TSC = join(ROOT, 'node_modules/.bin/tsc');

/** Saves parsing at the start. Bun makes bytecode only of CommonJS; names are kept for stacks in the log. */
const BYTECODE = {
  target: 'bun',
  format: 'cjs',
  bytecode: true,
  minify: { whitespace: true, syntax: true },
} as const;

/** The command of the package. Bun runs the bytecode if it has the same version; Deno runs modules. */
const BIN = `#!/usr/bin/env bun
const { main } = await ('Bun' in globalThis ? import('./cli.cjs') : import('./cli.js'));
await main();
`;

/** Removes the previous package, but keeps the executable, which isn't part of it. */
function removeOldPackage(): void {
  for (const name of existsSync(DIST) ? readdirSync(DIST) : []) {
    if (name !== SERVER_NAME) rmSync(join(DIST, name), { recursive: true, force: true });
  }
}

async function buildPackage(): Promise<void> {
  await Bun.build({
    entrypoints: ['start/package/index.ts', 'start/package/testing.ts', 'cli.ts'].map((file) => join(SRC, file)),
    outdir: DIST,
    naming: '[name].js',
    target: 'bun',
    packages: 'external',
    splitting: true,
  });
  await Bun.build({ entrypoints: [join(SRC, 'doors/services/verifier.ts')], outdir: DIST, target: 'node' });
  await Bun.build({
    ...BYTECODE,
    entrypoints: [CLI],
    outdir: DIST,
    naming: '[name].cjs',
    packages: 'external',
  });
  await Bun.write(join(DIST, 'bin.js'), BIN);
  await buildDeclarations();
}

async function buildDeclarations(): Promise<void> {
  const config = join(DIST, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    resolveJsonModule: false, // package.json is outside rootDir
    declaration: true,
    emitDeclarationOnly: true,
    incremental: false, // an incremental build writes nothing if nothing changed
    rewriteRelativeImportExtensions: true,
    rootDir: SRC,
    outDir: join(DIST, 'types'),
  };
  const files = [
    'start/package/index.ts',
    'start/package/testing.ts',
    'doors/services/verifier.ts',
    'ground/types.d.ts',
  ].map((file) => join(SRC, file));
  await Bun.write(config, JSON.stringify({ extends: '../tsconfig.json', compilerOptions, files, include: [] }));
  const tsc = Bun.spawn([TSC, '-p', config], { stdio: ['ignore', 2, 2] });
  if ((await tsc.exited) !== 0) throw new Error('tsc found errors');
  rmSync(config);
}

async function buildExecutable(): Promise<void> {
  await Bun.build({
    ...BYTECODE,
    entrypoints: [CLI],
    compile: {
      outfile: join(DIST, SERVER_NAME),
      execArgv: ['--no-install'], // a missing package of a tool file must not be downloaded
      autoloadBunfig: false, // bunfig.toml is for Bun in this repository, not for a server in another folder
    },
  });
}

const build = command({
  name: 'build',
  summary: `Builds the package into dist/, or the executable dist/${SERVER_NAME}.`,
  options: { compile: flag },
  async run({ options: { compile } }) {
    if (compile) return buildExecutable();
    if (!existsSync(TSC)) throw new CommandError('expected the development packages; first run: bun install');
    removeOldPackage();
    await buildPackage();
  },
});

if (import.meta.main) void endWith(mainOf(build, SERVER_NAME));
