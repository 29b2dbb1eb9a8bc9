// What is taken out of the scripts and styles of pages, and what must stay.

import { expect, test } from 'bun:test';
import { minified, minifiedScript } from '../../src/ground/minify.ts';

/** § stands for $. */
const CASES: readonly (readonly [what: string, script: string, left: string])[] = [
  ['comments and indentation', 'const a = 1; // one\n/* two\n*/ const b = 2;\n', 'const a=1;const b=2;'],
  ['breaks where a statement ends without a semicolon', 'function f() {\n}\nfoo();', 'function f(){}\nfoo();'],
  ['spaces between words', 'return typeof x === "y" ? in_ : of;', 'return typeof x==="y"?in_:of;'],
  ['signs that would be another one together', 'a + +b - -c + d;', 'a+ +b- -c+d;'],
  ['strings as they are', `'// no  comment' + "it's  /* none */";`, `'// no  comment'+"it's  /* none */";`],
  [
    'templates with holes in holes',
    '`a  // §{ b ? `c  §{ { d: 1 } } {` : "}" }  e`;',
    '`a  // §{b?`c  §{{d:1}} {`:"}"}  e`;',
  ],
  ['a $ in a template', '`$ $5  \\§{ x }  \\``;', '`$ $5  \\§{ x }  \\``;'],
  ['regular expressions', 'x.replace(/[/"\'] \\/ {/g, "");', 'x.replace(/[/"\'] \\/ {/g,"");'],
  ['divisions', 'a / b / c; (a) / 2 / d;', 'a/b/c;(a)/2/d;'],
];

test.each(CASES)('of a script: %s', (_, script, left) => {
  expect(minifiedScript(script.replaceAll('§', '$'))).toBe(left.replaceAll('§', '$'));
});

test('a script that doesn’t end is an error, not a page', () => {
  expect(() => minifiedScript('const a = `b §{ c'.replace('§', '$'))).toThrow('end');
});

test('of a style sheet: what has a meaning stays', () => {
  const style = '<style>/* all */\n.a > :is(.b, .c) {\n  margin: 0 auto;\n  width: calc(6ch + 50px);\n}\n</style>';
  expect(minified(style)).toBe('<style> .a > :is(.b,.c){margin:0 auto;width:calc(6ch + 50px)}</style>');
});
