// `bun run release <version> [--dry-run]`: writes the version and date into the files that name them, makes the tarball
// and the executable in dist/, commits and tags. Pushing and publishing are left to a maintainer.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVER_NAME, SERVER_VERSION } from '../lib/server-info.ts';
import { asksForHelp } from './help.ts';

const ROOT = join(import.meta.dirname, '../..');
const USAGE = 'usage: bun run release <major>.<minor>.<patch> [--dry-run]';

/** A problem that the caller can solve; its message is printed. */
class Refusal extends Error {}

/** The replacements in each file; each text must be there. */
const editsFor = (version: string, date: string): Readonly<Record<string, readonly (readonly [string, string])[]>> => ({
  'package.json': [[`"version": "${SERVER_VERSION}"`, `"version": "${version}"`]],
  'server.json': [[`"version": "${SERVER_VERSION}"`, `"version": "${version}"`]],
  'src/lib/server-info.ts': [[`SERVER_VERSION = '${SERVER_VERSION}'`, `SERVER_VERSION = '${version}'`]],
  'src/widgets/bridge.js': [[`version: '${SERVER_VERSION}'`, `version: '${version}'`]],
  'src/page/frame.js': [[`version: '${SERVER_VERSION}'`, `version: '${version}'`]],
  'src/widgets/preview-host.js': [[`version: '${SERVER_VERSION}'`, `version: '${version}'`]],
  '.github/CHANGELOG.md': [['\n## Unreleased\n', `\n## Unreleased\n\n## ${version} - ${date}\n`]],
});

function release(args: readonly string[]): void {
  if (asksForHelp(args)) return void say(`${USAGE}\n`);
  const dry = args.includes('--dry-run');
  const [version = '', ...more] = args.filter((arg) => arg !== '--dry-run');
  if (!/^\d+\.\d+\.\d+$/.test(version) || more.length > 0) throw new Refusal(USAGE);
  if (Bun.semver.order(version, SERVER_VERSION) <= 0) throw new Refusal(`${version} is not above ${SERVER_VERSION}`);
  const tag = `v${version}`;
  if (output('git', 'status', '--porcelain') !== '') throw new Refusal('there are changes that are not committed');
  if (output('git', 'tag', '--list', tag) !== '') throw new Refusal(`the tag ${tag} is there already`);
  if (!/\n## Unreleased\n+### /.test(read('.github/CHANGELOG.md'))) throw new Refusal('the changelog has nothing new');

  const edits = Object.entries(editsFor(version, new Date().toISOString().slice(0, 10)));
  const files = edits.map(([file]) => file);
  const edited = edits.map(([file, pairs]) => [
    file,
    pairs.reduce((text, pair) => replaced(file, text, pair), read(file)),
  ]);
  const made = [`dist/${SERVER_NAME}-${version}.tgz`, `dist/${SERVER_NAME}`];
  if (dry) {
    say(`would change ${files.join(', ')}\nwould make ${made.join(' and ')}\nwould commit and tag ${tag}\n`);
    return;
  }

  for (const [file = '', text = ''] of edited) writeFileSync(join(ROOT, file), text);
  output(process.execPath, 'pm', 'pack', '--destination', join(ROOT, 'dist'));
  output(process.execPath, join(import.meta.dirname, 'build.ts'), '--compile');
  output('git', 'commit', '--quiet', '--message', `Version ${version}`, '--', ...files);
  output('git', 'tag', '--annotate', tag, '--message', `Version ${version}`);
  say(
    `made ${made.join(' and ')}, commit and tag ${tag}\nthen: git push --follow-tags, npm publish ${made[0]}, mcp-publisher publish\n`,
  );
}

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

function replaced(file: string, text: string, [from, to]: readonly [string, string]): string {
  if (!text.includes(from)) throw new Refusal(`${file}: expected ${JSON.stringify(from)} in it`);
  return text.replaceAll(from, to);
}

const say = (text: string): void => void process.stdout.write(text);

function output(...command: readonly string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync([...command], { cwd: ROOT });
  if (!success) throw new Refusal(`${command.join(' ')} failed: ${stderr}`);
  return stdout.toString();
}

if (import.meta.main) {
  try {
    release(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
