// `bun tests/lab/doors.ts <door> [test files or folders]`: takes a door out of a copy of all files, checks the types, and
// runs the tests, by default all that `bun run test` does, but for those of the door and of the documents. What fails is
// the door's, or says that the core does not stand without it. The table says which lines a door has outside its folder,
// beside the imports of it: who takes one out for good deletes the same.

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { run } from '../support/command.ts';
import { copyOfAll } from '../support/source.ts';

/** What to change: a file of src/, the one place in it, and what stands there without the door. */
type Edit = readonly [file: string, place: RegExp, instead?: string];

export const DOORS: Readonly<Record<string, readonly Edit[]>> = {
  services: [['app.ts', / {6}\.\.\.openServices\(.*\n/]],
  children: [
    ['app.ts', /(?<=lookups: \[)CHILD_LOOKUP, /],
    ['app.ts', / {4}createDerived: createChildStore,\n/],
    ['app.ts', /, \.\.\.openChildren\(core\)/],
    ['commands/keys/database.ts', / {4}createDerived: createChildStore,\n/],
  ],
  admin: [
    ['app.ts', / {2}const \{ tools, part \} = .*\n/],
    ['app.ts', /\[tools, ownerTools\(core\)\], part/, '[ownerTools(core)], part: null'],
  ],
  owners: [
    ['app.ts', / {2}const \{ ownerTools \} = .*\n/],
    ['app.ts', /(?<=\[tools), ownerTools\(core\)/],
  ],
  rules: [
    ['app.ts', /(?<=lookups: \[.*), RULE_LOOKUP/],
    ['app.ts', /(?<=createCore\(base), openRules/],
    ['app.ts', / {6}await warnOfRules\(.*\n/],
    ['commands/keys/show.ts', / {10}key\.rules === 0 \? .*\n/],
    ['commands/keys/doctor.ts', / {8}\.\.\.\(await ruleFindings\(.*\n/],
    ['commands/keys/doctor.ts', /\/\*\* Finds the rules that let nobody in[\s\S]*?\n}\n\n/],
  ],
  signin: [
    ['app.ts', / {2}const hasSignIn = .*\n {2}const signIn = .*\n/],
    ['app.ts', /\.\.\.\(signIn\?\.grantTypes \?\? \[\]\), /],
    ['app.ts', /signIn\?\.authorizationServer \?\? null/, 'null'],
    ['app.ts', /signIn\?\.handsOutKeys \?\? false/, 'false'],
    ['app.ts', / {6}\.\.\.signIn\?\.routes,\n/],
  ],
  page: [['app.ts', / {6}\.\.\.openPage\(.*\n/]],
  copies: [
    ['app.ts', / {4}createReplica: await replicasOf\(config\),\n/],
    ['app.ts', /async function replicasOf\([\s\S]*?\n}\n\n/],
    ['commands/keys/database.ts', / {2}if \(.*isAtRest[\s\S]*?\n {2}}\n/],
  ],
  metrics: [
    ['app.ts', /(?<=readonly usage\?: \(\) => )ProcessUsage/, 'object'],
    ['app.ts', / {2}const metrics = await openMetrics\(.*\n/],
    ['app.ts', / {4}watch: metrics\?\.watch,\n/],
    ['app.ts', /(?<=openRules\)), metrics(?=, options)/],
    ['app.ts', /(?<=core: Core), metrics: MetricsDoor \| null(?=, options)/],
    ['app.ts', / {2}metrics\?\.addGauges\(.*\n/],
    ['app.ts', /metrics\?\.observer \?\? \[\], /],
    ['app.ts', / {6}metrics: metrics\?\.route \?\? null,\n/],
  ],
  traces: [
    ['app.ts', / {2}const traces = await openTraces\(.*\n/],
    ['app.ts', /, spansDropped: traces\?\.dropped/, ', spansDropped: undefined'],
    ['app.ts', /, traces\?\.observer \?\? \[\]/],
    ['app.ts', /, traces\?\.stop\(\)/],
  ],
  sse: [
    ['app.ts', / {2}const sse = openSse\(\);\n/],
    ['app.ts', / {6}\.\.\.sse\.routes\(.*\n/],
    ['app.ts', /(?<=const counted = \{ sessions: )sse\.count/, '() => 0'],
    ['app.ts', /(?<=healthRoute\(.*)sse\.count/, '() => 0'],
    ['app.ts', /endStreams: sse\.stop/, 'endStreams() {}'],
  ],
};

/** Files of src/commands/keys/ that are about a door alone, with their lines in the table of verbs. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  admin: ['block', 'export', 'import', 'list', 'revoke', 'show', 'key-output', 'update', 'usage'],
  copies: ['backup', 'restore'],
  owners: ['block', 'owner'],
  rules: ['rule'],
};

function removeVerb(src: string, verb: string): void {
  rmSync(join(src, 'commands/keys', `${verb}.ts`));
  const table = join(src, 'commands/keys.ts');
  const lines = readFileSync(table, 'utf8').split('\n');
  writeFileSync(table, lines.filter((line) => !line.includes(`'./keys/${verb}.ts'`)).join('\n'));
}

/** Takes a door out of a copy: its folder, the imports of it, and its lines. Throws an Error if a line is not there. */
export function removeDoor(root: string, door: string): void {
  const src = join(root, 'src');
  const edits = DOORS[door];
  if (edits === undefined) throw new Error(`no such door: ${door}; there are ${Object.keys(DOORS).join(', ')}`);
  rmSync(join(src, 'doors', door), { recursive: true });
  for (const verb of VERBS[door] ?? []) removeVerb(src, verb);
  const imported = new RegExp(`^(?:import|export)\\b[^;'"]*?\\bfrom '[^']*/doors/${door}/[^']+';\\n`, 'gm');
  for (const file of new Glob('**/*.ts').scanSync(src)) {
    if (file.startsWith('doors/')) continue;
    const was = readFileSync(join(src, file), 'utf8');
    const without = was.replace(imported, '');
    if (without !== was) writeFileSync(join(src, file), without);
  }
  for (const [file, place, instead = ''] of edits) {
    const text = readFileSync(join(src, file), 'utf8');
    if (text.match(new RegExp(place, 'g'))?.length !== 1) throw new Error(`${file}: expected once: ${place}`);
    writeFileSync(
      join(src, file),
      text.replace(place, () => instead),
    );
  }
}

const BUILD_INFO = 'without.tsbuildinfo';

/**
 * Returns what the type check finds in the source of a copy. What is no longer used may stay. `checked`: another copy that
 * was checked before; files that are the same there, and use nothing that has changed, are not checked again.
 */
export async function typeErrors(root: string, checked?: string): Promise<string> {
  if (checked !== undefined) cpSync(join(checked, BUILD_INFO), join(root, BUILD_INFO));
  const options = { noUnusedLocals: false, noUnusedParameters: false, tsBuildInfoFile: BUILD_INFO };
  const config = { extends: './tsconfig.json', compilerOptions: options, include: ['src'] };
  writeFileSync(join(root, 'without.json'), JSON.stringify(config));
  const { stdout } = await run([join(root, 'node_modules/.bin/tsc'), '-p', 'without.json', '--pretty', 'false'], {
    cwd: root,
  });
  return stdout;
}

/** Tests that read the documents, which name all files. */
const OF_DOCUMENTS = ['documents', 'readme', 'typed', 'imports'].map((name) => `tests/${name}.test.ts`);

if (import.meta.main) {
  const [door = '', ...named] = process.argv.slice(2);
  const root = copyOfAll();
  removeDoor(root, door);
  const found = await typeErrors(root);
  console.log(found === '' ? `without ${door} the types are clean` : found);
  rmSync(join(root, 'tests/doors', door), { recursive: true, force: true });
  for (const file of OF_DOCUMENTS) rmSync(join(root, file));
  const tests = named.length > 0 ? named.map((file) => `./${file}`) : [];
  const child = Bun.spawn([process.execPath, 'test', '--timeout', '180000', ...tests], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  process.exitCode = (await child.exited) || Number(found !== '');
}
