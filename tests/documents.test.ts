// What the documents name is there: files, links and their headings, scripts, versions.

import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Glob } from 'bun';
import PACKAGE from '../package.json';
import { DOORS } from './lab/doors.ts';
import { DOCUMENTS, filesToWrite, ROOT, readDocument, unquoted } from './support/documents.ts';
import { EVENT_KINDS, EVENTS, KNOWN_CLIENTS, LIMITS, type Limit, METRICS, VARIABLES } from './support/tables.ts';

test('the documents are found', () => {
  expect(DOCUMENTS).toContain('README.md');
  expect(DOCUMENTS).toContain('.github/SECURITY.md');
  expect(DOCUMENTS).toContain('src/README.md');
});

/** Paths from the root of the repository, as running text names them. */
const pathsIn = (text: string) => text.match(/(?<![\w./-])(?:\.ci|\.github|db|src|tests)\/[\w./@-]*\w/g) ?? [];

/** The targets of links and images, outside of code. */
const linksIn = (text: string) =>
  [
    ...text
      .replace(/^```[\s\S]*?^```/gm, '')
      .replace(/`[^`\n]*`/g, 'code')
      .matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g),
  ].map(([, target = '']) => target);

/** The anchors of a document's headings, as GitHub makes them. */
const anchorsIn = (text: string) =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  );

function leadsSomewhere(document: string, target: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? document : join(dirname(document), path);
  if (!existsSync(join(ROOT, file))) return false;
  return anchor === undefined || anchorsIn(readDocument(file).text).includes(anchor);
}

/** What stands in code marks and is neither a variable nor a field. */
const eventsIn = (cell: string) =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code).filter((code) => !/[=:]/.test(code));

/** The variables of the server and of the tests. */
const READ: readonly string[] = [...VARIABLES, 'TEST_STORE', 'SERVER_RUNTIME'];

/** `RATE_LIMIT_*` names several. */
const startsGroup = (name: string, read: string): boolean => name.endsWith('_') && read.startsWith(name);

describe.each(DOCUMENTS)('%s', (document) => {
  const { text } = readDocument(document);

  test('names only files that are there', () => {
    const toWrite = filesToWrite(text);
    const missing = pathsIn(text).filter((path) => !toWrite.includes(path) && !existsSync(join(ROOT, path)));
    expect(missing).toEqual([]);
  });

  test('has no relative link that leads nowhere', () => {
    const relative = linksIn(text).filter((target) => !/^[a-z]+:/.test(target));
    expect(relative.filter((target) => !leadsSomewhere(document, target))).toEqual([]);
  });

  test('names only scripts and the version of Bun that package.json has', () => {
    const scripts = [...text.matchAll(/\bbun(?:@[\d.]+)? run (\w+(?::\w+)*)/g)].map(([, name = '']) => name);
    expect(scripts.filter((name) => !(name in PACKAGE.scripts))).toEqual([]);
    expect((text.match(/bun@[\d.]+/g) ?? []).filter((pinned) => pinned !== PACKAGE.packageManager)).toEqual([]);
  });

  test('names only variables that are read', () => {
    const inCode = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code).join(' ');
    const named = inCode.match(/(?<![\w$])[A-Z][A-Z0-9]*_[A-Z0-9_]*(?!\w)/g) ?? [];
    const isRead = (name: string) =>
      /^(TOOL|OTEL)_/.test(name) || READ.some((read) => read === name || startsGroup(name, read));
    expect(named.filter((name) => !isRead(name))).toEqual([]);
  });

  test('has no comment in what is to be pasted: an interactive zsh would run it', () => {
    const pasted = text.match(/(?<=^ *```sh\n)[\s\S]*?(?=^ *```$)/gm) ?? [];
    expect(pasted.filter((lines) => /(^|\s)#/m.test(lines))).toEqual([]);
  });
});

test('the architecture names only files of src', () => {
  const { text } = readDocument('src/README.md');
  const named = text.match(/(?<![\w/.])[\w.-]+(?:\/[\w.-]+)*\.ts\b/g) ?? [];
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter((file) => !['.', 'src'].some((folder) => existsSync(join(ROOT, folder, file))))).toEqual([]);
});

test('the architecture names all files of the rooms', () => {
  const named = readDocument('src/README.md')
    .section('Which file')
    .split('\n\n')
    .flatMap((paragraph) => {
      const [, folder = '', text = ''] = /^`(\S+\/)`:(.*)$/s.exec(paragraph) ?? [];
      return [...new Set([...text.matchAll(/`([a-z][a-z-]*)`/g)].map(([, name]) => folder + name))];
    });
  const there = [...new Glob('*/**/*.{ts,js}').scanSync(join(ROOT, 'src'))].filter(
    (file) => !/\.d\.ts$|\/index\.ts$/.test(file),
  );
  expect(named.sort()).toEqual(there.map((file) => file.replace(/\.\w+$/, '')).sort());
});

test('the architecture has a row for every room', () => {
  const named = readDocument('src/README.md')
    .table('The parts')
    .flatMap(([rooms = '']) => unquoted(rooms).split(', '));
  const there = readdirSync(join(ROOT, 'src'), { withFileTypes: true })
    .filter(({ name }) => name !== 'types' && !/\.(json|md)$/.test(name)) // what only the compiler and the runtimes read
    .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
  expect(named.sort()).toEqual(there.sort());
});

test('the architecture has a row for every door, and there is a way to take each out', () => {
  const there = readdirSync(join(ROOT, 'src/doors')).sort();
  const named = readDocument('src/README.md').table('The doors');
  expect(named.map(([door]) => unquoted(door).replace(/\/$/, '')).sort()).toEqual(there);
  expect(Object.keys(DOORS).sort()).toEqual(there);
});

test('every threat names a test', () => {
  const rows = readDocument('tests/security/README.md').table('Threats');
  const threats = rows.filter(([threat = '']) => !/^\*\*.*\*\*$/.test(threat)); // but for the heads of groups
  expect(threats.length).toBeGreaterThan(40);
  expect(threats.filter(([, , shownBy = '']) => pathsIn(shownBy).length === 0)).toEqual([]);
});

/** What each limit is of, in the words of the documents. */
const LIMITED: Readonly<Record<keyof typeof LIMITS, string>> = {
  body: 'request body',
  output: 'output of a tool or prompt',
  creations: 'creating, rotating and changing keys',
  creationsOfDay: 'creating, rotating and changing keys, over a day',
  children: 'living children of a key',
  childrenOfOwner: 'living children of all keys of an owner',
  exchangesOfKey: 'making children of a key',
  exchangesOfKeyAndDay: 'making children of a key, over a day',
  exchanges: 'making children for an owner',
  exchangesOfDay: 'making children for an owner, over a day',
  signIns: 'handing a key to clients',
  keyRequests: 'open requests of programs for a key',
  keyRequestsOfNetwork: 'such requests of one network, an IPv4 /24 or an IPv6 /48',
  keyRequestsAsked: 'requests of programs for a key',
  wrongUserCodes: 'wrong codes of such requests',
  clientDocuments: 'fetching client documents under a wildcard of `OAUTH_CLIENTS`',
  clientDocumentsOfAll: 'fetching them for whoever asks',
  failedChanges: 'ending and rotating keys that are not there, or have ended',
  lists: 'lists of keys',
  histories: 'histories of keys',
  listsAtOnce: 'lists that are read',
  unknownKeys: 'unknown keys, read as they come',
  messages: 'requests above 16 KiB, until their calls are over',
  streams: 'open `/sse` streams',
  askingForChanges: 'requests of services for changes',
  sessionCalls: 'calls at once in one session of `/sse`',
  unread: 'unread responses above 64 Ki characters, and event streams',
};

const MIB = 1024 * 1024;

/** `8 MiB`, or `1,000`. */
const amountOf = (amount: number): string =>
  amount >= MIB ? `${(amount / MIB).toLocaleString('en')} MiB` : amount.toLocaleString('en');

/** How the cell with a limit's amounts begins. */
function boundsOf(limit: Limit): string {
  if ('burst' in limit) return `${amountOf(limit.burst)} at once, then ${limit.perS} a second, for each `;
  if ('most' in limit) return `${limit.most} in any ${limit.inS} s, for each `;
  if (!('total' in limit)) return amountOf(limit.each);
  const total = amountOf(limit.total);
  return 'each' in limit ? `${total} together, ${amountOf(limit.each)} for each ` : `${total} for all`;
}

test('each client of the word known stands in the table of what it admits', () => {
  const ids = readDocument('src/mcp/README.md').text.match(/^\| `(https:[^`]+)` \|/gm) ?? [];
  expect(ids.map((row) => row.slice(3, -3))).toEqual([...KNOWN_CLIENTS]);
});

test('each limit of the table in the code stands in a table of the documents once, with its amounts', () => {
  const rows = DOCUMENTS.flatMap((document) => readDocument(document).text.match(/^\|.*\|$/gm) ?? []);
  const begun = Object.entries(LIMITS).map(
    ([name, limit]) => `| ${LIMITED[name as keyof typeof LIMITS]} | ${boundsOf(limit)}`,
  );
  const isOf = (row: string, begun: string) => row.startsWith(begun) && !/^[\d,.]/.test(row.slice(begun.length));
  const times = begun.map((one) => rows.filter((row) => isOf(row, one)).length);
  expect(begun.filter((_, at) => times[at] !== 1)).toEqual([]);
});

test('the table of scripts has all of them', () => {
  const listed = readDocument('tests/README.md').table('Scripts');
  expect(listed.map(([name]) => unquoted(name).split(' ')[0] ?? '').sort()).toEqual(
    Object.keys(PACKAGE.scripts).sort(),
  );
});

test('the table of the log names every event under its level, and no other; each is logged somewhere', () => {
  const rows = readDocument('src/start/README.md').table('The log');
  const named = (level: string) =>
    rows.filter(([head = '']) => head.startsWith(`\`${level}\``)).flatMap(([, cell = '']) => eventsIn(cell));
  const shown = (events: readonly string[]) => events.map((event) => event.replace(/:.*/, '')).sort();
  expect(named('info').sort()).toEqual(shown(EVENTS.info));
  expect(named('warn').sort()).toEqual(shown(EVENTS.warn));
  const source = [...new Glob('**/*.ts').scanSync(join(ROOT, 'src'))]
    .filter((file) => file !== 'watch/events.ts')
    .map((file) => readFileSync(join(ROOT, 'src', file), 'utf8'))
    .join('\n');
  const all: readonly string[] = Object.values(EVENTS).flat();
  expect(all.filter((event) => !source.includes(`'${event}'`))).toEqual([]);
  // What repeats in the background names its event as text.
  const repeated = [...source.matchAll(/\bevent: '([^']+)'/g)].map(([, event = '']) => event);
  expect(repeated.filter((event) => !all.includes(event))).toEqual([]);
});

test('the kinds of events are those that triggers and a restore write, and db/README.md lists', () => {
  const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
  const sql = [...new Glob('db/*.sql').scanSync(ROOT), 'src/doors/copies/restore.ts'].map(read).join('\n');
  const alone = sql.matchAll(/INSERT INTO trail \([^)]*\)\s+(?:VALUES \(|SELECT )[^']*'(\w+)'|'(restored)', '/g);
  const cases = [...sql.matchAll(/SELECT CASE((?:(?!SELECT).)*?)END AS kind/gs)].map(([, chosen]) => chosen).join();
  const chosen = cases.matchAll(/(?:THEN|ELSE) '(\w+)'/g);
  const written = [...alone, ...chosen].map(([, first, second]) => first ?? second);
  const row = /^\| `kind` \|(.*)$/m.exec(read('db/README.md'))?.[1] ?? '';
  const listed = [...row.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const kinds: readonly string[] = EVENT_KINDS;
  expect([...new Set(written)].sort()).toEqual([...kinds].sort());
  expect(listed.sort()).toEqual([...kinds].sort());
  // The page calls what it has no words for "Changed", which an owner's plan and a key are; a restore is nobody's event.
  const words = ['src/doors/page/key-panel.js', 'src/doors/admin/opened-owner.js'].map(read).join('\n');
  const wordless = kinds.filter((kind) => !new RegExp(`^  ${kind}: |'${kind}'`, 'm').test(words));
  expect(wordless).toEqual(['changed', 'owner_changed', 'restored']);
});

test('every variable has its row, and every metric', () => {
  const names = (document: string, heading: string) =>
    readDocument(document)
      .table(heading)
      .flatMap(([cell = '']) => unquoted(cell).split(', '));
  expect(names('src/config/README.md', 'Variables').sort()).toEqual([...VARIABLES].sort());
  expect(names('src/watch/README.md', 'Metrics').sort()).toEqual(Object.keys(METRICS).sort());
});

describe('on Deno', () => {
  const deno = readDocument('src/start/README.md');

  test('the version is the one that is installed', () => {
    expect(deno.section('Deno')).toContain(`(tested with ${PACKAGE.devDependencies.deno})`);
  });

  test('every variable that is read may be read', () => {
    const [, list = ''] = /--allow-env=(\S+)/.exec(PACKAGE.scripts['start:deno']) ?? [];
    const patterns = list.split(',');
    const isAllowed = (name: string) =>
      patterns.some((pattern) => name === pattern || (pattern.endsWith('*') && name.startsWith(pattern.slice(0, -1))));
    expect([...VARIABLES, 'TOOL_'].filter((name) => !isAllowed(name))).toEqual([]);
  });
});
