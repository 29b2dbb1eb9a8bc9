// The predicate of a schema against the schema's own parse: what passes the one comes out of the other unchanged.

import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import * as v from 'valibot';
import { conformsTo } from '../../src/calls/conforms.ts';
import { text } from '../../src/calls/schema.ts';

const SCHEMAS: readonly v.GenericSchema[] = [
  v.strictObject({}),
  v.strictObject({ a: v.string(), b: v.optional(v.number()) }),
  v.strictObject({ a: v.nullable(v.boolean()), nested: v.strictObject({ list: v.array(v.literal('x')) }) }),
  v.array(v.strictObject({ a: v.pipe(v.string(), v.description('a')), b: v.picklist(['x', 'y']) })),
  v.pipe(v.array(v.pipe(v.number(), v.minValue(0))), v.maxLength(2)),
  v.strictObject({ a: text(1, 3), b: v.optional(text(0, 2)) }),
];

/** Values near the schemas: their field names and texts, and others. */
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>('x', 'y', '', 'abc', 'abcd', '\u0000', 0, -1, 1, Number.NaN, true, null, undefined),
    fc.constantFrom({ a: null, nested: { list: ['x'] } }, { a: true, nested: { list: [] } }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'nested', 'list', 'c', '__proto__', 'constructor'), tie('value'), {
      maxKeys: 3,
    }),
  ),
}));

test('what conforms is what the parse accepts, and gives back as it is', () => {
  const passed = new Set<v.GenericSchema>();
  fc.assert(
    fc.property(fc.constantFrom(...SCHEMAS), value, (schema, input) => {
      if (conformsTo(schema)?.(input) !== true) return;
      passed.add(schema);
      const parsed = v.safeParse(schema, input);
      expect(parsed.success).toBe(true);
      expect(parsed.output).toEqual(input);
    }),
    { numRuns: 20_000, seed: 1 },
  );
  expect(passed.size).toBe(SCHEMAS.length);
});

describe('no predicate for a schema that changes values, or has parts it does not know', () => {
  test.each([
    ['a default', v.strictObject({ a: v.optional(v.string(), 'x') })],
    ['a fallback', v.strictObject({ a: v.fallback(v.optional(v.string()), 'x') })],
    ['a transformation', v.pipe(v.string(), v.trim())],
    ['an object that drops unknown fields', v.object({ a: v.string() })],
    ['a union', v.union([v.string(), v.number()])],
    ['any of these inside', v.strictObject({ a: v.array(v.pipe(v.string(), v.toLowerCase())) })],
  ])('%s', (_what, schema: v.GenericSchema) => {
    expect(conformsTo(schema)).toBeNull();
  });
});
