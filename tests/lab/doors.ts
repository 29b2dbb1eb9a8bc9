// `bun tests/lab/doors.ts <door> [test files or folders]`: takes a door out of a copy of all files, checks the types, and
// runs the tests, by default all that `bun run test` does, but for those of the door and of the documents. What fails is
// the door's, or says that the core does not stand without it. The table says which lines a door has outside its folder,
// beside the imports of it: who takes one out for good deletes the same.

import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { run } from '../support/command.ts';
import { copyOfAll } from '../support/source.ts';

/** What to change: a file of src/, the one place in it, and what stands there without the door. */
type Edit = readonly [file: string, place: RegExp, instead?: string];

export const DOORS: Readonly<Record<string, readonly Edit[]>> = {
  services: [
    ['app.ts', /\/\*\* Creates the routes for other services\. \*\/\nfunction servicesOf\([\s\S]*?\n}\n\n/],
    ['app.ts', / {6}\.\.\.servicesOf\(.*\n/],
  ],
  children: [
    ['app.ts', / {4}derived: childrenStore,\n/],
    ['app.ts', /\/\*\* Opens what makes children of keys\. \*\/\nconst childrenOf =[\s\S]*?\n {2}\}\);\n\n/],
    ['app.ts', / {2}const children = childrenOf\(.*\n/],
    ['app.ts', / {2}const workloads = workloadGrants\(children\.delegate\);\n/],
    ['app.ts', /, \.\.\.children\.grantTypes, \.\.\.workloads/],
    ['commands/keys/database.ts', / {4}derived: childrenStore,\n/],
  ],
  admin: [
    ['app.ts', /import\('\.\/doors\/admin\/index\.ts'\), /],
    ['app.ts', /const \[admin, owners\]/, 'const [owners]'],
    ['app.ts', / {2}const adminStore = .*\n/],
    ['app.ts', / {6}admin\.adminTools\(.*\n/],
    ['app.ts', /admin\.createTrail\(.*\)/, 'null'],
    ['app.ts', /admin\.operatorsPart/, 'null'],
  ],
  owners: [
    ['app.ts', /, import\('\.\/doors\/owners\/index\.ts'\)/],
    ['app.ts', /const \[admin, owners\]/, 'const [admin]'],
    ['app.ts', / {2}const ownerStore = .*\n/],
    ['app.ts', / {6}owners\.ownerTools\(.*\n/],
  ],
  rules: [
    ['app.ts', / {4}rules: RULE_LOOKUP,\n/],
    ['app.ts', / {2}const rules = openRules\(\{[\s\S]*?\n {2}\}\);\n/],
    ['app.ts', / {4}findRule: rules\.findRule,\n/],
    ['app.ts', /createVerify\(rules\.isOfRule\)/, 'createVerify()'],
    ['app.ts', / {2}const workloads = workloadGrants\(children\.delegate\);\n/],
    ['app.ts', /, \.\.\.workloads/],
    ['app.ts', / {6}await warnOfRules\(.*\n/],
    ['commands/keys/doctor.ts', / {8}\.\.\.\(await ruleFindings\(.*\n/],
    ['commands/keys/doctor.ts', /\/\*\* Finds the rules that let nobody in[\s\S]*?\n}\n\n/],
  ],
  signin: [
    ['app.ts', /\/\*\* Opens sign-in, if clients get keys here\. \*\/\nasync function signInOf\([\s\S]*?\n}\n\n/],
    ['app.ts', / {2}const signIn = await signInOf\(.*\n/],
    ['app.ts', / {4}routes: signIn\?\.routes,\n/],
    ['app.ts', /\.\.\.\(signIn\?\.grantTypes \?\? \[\]\), /],
    ['app.ts', /signIn\?\.authorizationServer \?\? null/, 'null'],
    ['app.ts', /signIn !== null && parts\.config\.connect !== null/, 'false'],
    ['app.ts', / {6}\.\.\.clients\.routes,\n/],
  ],
  page: [
    [
      'app.ts',
      /\/\*\* Returns the routes of the page \/keys; none if it is off\. \*\/\nfunction pageOf\([\s\S]*?\n}\n\n/,
    ],
    ['app.ts', / {6}\.\.\.pageOf\(.*\n/],
  ],
  copies: [
    ['app.ts', / {4}createReplica: await replicasOf\(config\),\n/],
    [
      'app.ts',
      /\/\*\* Loads what creates a replica, if one is configured\. \*\/\nasync function replicasOf\([\s\S]*?\n}\n\n/,
    ],
  ],
  metrics: [
    ['app.ts', /(?<=readonly usage\?: \(\) => )ProcessUsage/, 'object'],
    ['app.ts', / {2}const metrics = await openMetrics\(.*\n/],
    ['app.ts', /(?<=const keyStore = )metrics\?\.store\(store\) \?\? /],
    ['app.ts', /(?<=count: )metrics\?\.token \?\? /],
    ['app.ts', /(?<=planStore: )metrics\?\.store\(store\.plans\) \?\? /],
    ['app.ts', /(?<=derived: )metrics\?\.store\(store\.derived\) \?\? /],
    ['app.ts', /(?<=const verifyKey = )metrics\?\.verify\(verifier\) \?\? /],
    ['app.ts', /(?<=return \{ domain, )metrics, (?=originOf)/],
    ['app.ts', /(?<=\{ domain, )metrics, (?=originOf, keyStore \}: Keys\))/],
    ['app.ts', /(?<=\(one: S\): S => )metrics\?\.store\(one\) \?\? /],
    ['app.ts', /(?<=const \{ domain, )metrics, (?=keyStore, verifyKey)/],
    ['app.ts', /(?<=const \{ domain, )metrics, (?=signing)/],
    ['app.ts', / {4}observe: metrics\?\.guard,\n/],
    ['app.ts', / {2}metrics\?\.addGauges\(\{[\s\S]*?\n {2}\}\);\n/],
    ['app.ts', /metrics\?\.observer \?\? \[\], /],
    ['app.ts', / {6}metrics: metrics\?\.route \?\? null,\n/],
  ],
  traces: [
    ['app.ts', / {2}const traces = await openTraces\(.*\n/],
    ['app.ts', /(?<=spansDropped: )traces\?\.dropped/, 'undefined'],
    ['app.ts', /, traces\?\.observer \?\? \[\]/],
    ['app.ts', /, traces\?\.stop\(\)/],
  ],
  sse: [
    ['app.ts', / {2}const sse = openSse\(\);\n/],
    ['app.ts', / {6}\.\.\.sse\.routes\(\{[\s\S]*?\n {6}\}\),\n/],
    ['app.ts', /(?<=metrics\?\.addGauges\(\{[^}]*)sse\.count/, '() => 0'],
    ['app.ts', /(?<=healthRoute\(\{[^}]*)sse\.count/, '() => 0'],
    ['app.ts', /endStreams: sse\.stop/, 'endStreams() {}'],
  ],
};

/** Files of src/commands/keys/ that are about a door alone, with their lines in the table of verbs. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  admin: ['block', 'export', 'import', 'list', 'revoke', 'show', 'shown-key', 'update', 'usage'],
  copies: ['backup', 'restore'],
  owners: ['block', 'owner', 'owners', 'shown-owner'],
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

/** Returns what the type check finds in the source of a copy. What is no longer used may stay. */
export async function typeErrors(root: string): Promise<string> {
  const options = { noUnusedLocals: false, noUnusedParameters: false, incremental: false, tsBuildInfoFile: null };
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
