// Looks inside: what reads it answers all of these alike.

import { expect, test } from 'bun:test';
import { strictObject } from '../../src/ground/strict-json.ts';

test.each([
  ['{}', true],
  ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}', true],
  ['{"a":"a","b":"a\\":"}', true],
  ['{"a":[":","a"],"b":"{\\"b\\":1}"}', true],
  ['{"__proto__":1}', true],
  ['{"a":1,"a":1}', false],
  ['{"a":1,"\\u0061":1}', false],
  ['{"a":1,"b":2 , "a" :1}', false],
  ['{"a":{"b":1,"b":1}}', false],
  ['{"a":[1,{"b":{},"c":[],"b":1}]}', false],
  ['{"__proto__":1,"__proto__":2}', false],
  ['[]', false],
  ['"a"', false],
  ['null', false],
  ['{"a":1}}', false],
  ['', false],
])('%s is an object in which each member stands once: %p', (text, isStrict) => {
  expect(strictObject(new TextEncoder().encode(text)) !== null).toBe(isStrict);
});

test.each([
  ['a BOM', [0xef, 0xbb, 0xbf, 0x7b, 0x7d]],
  ['a byte that is not UTF-8', [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]],
])('%s is no JSON', (_, bytes) => {
  expect(strictObject(new Uint8Array(bytes))).toBeNull();
});
