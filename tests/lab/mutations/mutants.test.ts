// What the mutations are that a file's syntax gives.

import { expect, test } from 'bun:test';
import { mutantsOf } from './mutants.ts';

const changed = (source: string) =>
  mutantsOf(source).map(({ start, end, text }) => source.slice(0, start) + text + source.slice(end));

test.each([
  ['if (a) return 1;', ['if (!(a)) return 1;', '']],
  ['if (a) b(); else c();', ['if (!(a)) b(); else c();', 'if (a) ; else c();', 'if (a) b(); else ;']],
  ['const a = b < c;', ['const a = (b) <= (c);']],
  [
    'const a = b && c === d;',
    ['const a = (b) || (c === d);', 'const a = (b);', 'const a = (c === d);', 'const a = b && (c) !== (d);'],
  ],
  ['const a = b ?? c;', ['const a = (b);', 'const a = (c);']],
  [
    'const a = b.every(c) ? 1 : 2;',
    ['const a = !(b.every(c)) ? 1 : 2;', 'const a = (1);', 'const a = (2);', 'const a = b.some(c) ? 1 : 2;'],
  ],
  ['const a = b.filter(c).map(d);', ['const a = (b).map(d);']],
  ['const a = Math.min(b, 1);', ['const a = (b);', 'const a = (1);', 'const a = Math.max(b, 1);']],
  ['const a = { ...b, c };', ['const a = { ...{}, c };']],
  ['try { b(); } finally { c(); }', ['try { b(); } finally {}', 'try { ; }', 'finally { ; }']],
  ['await a.b();', [';']],
  ['const a = b.toString();', []],
  ["log.warn('a', { b });", []],
  ["const a = 'DELETE FROM b WHERE c = 1 AND d < 2 AND e';", [" WHERE c = 1 AND e';", " WHERE c = 1 AND d < 2 '"]],
  ['const a = `plain AND text`; type B = true;', []],
])('%s', (source, expected) => {
  const all = changed(`async function f() { ${source} }`).map((text) =>
    text.replace(/^async function f\(\) \{ | \}$/g, ''),
  );
  expect(all).toHaveLength(expected.length);
  for (const [index, text] of expected.entries()) expect(all[index]).toContain(text.replace(/'$/, ''));
});
