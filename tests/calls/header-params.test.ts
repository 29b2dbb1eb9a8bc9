// Which marks of headers in a tool's input stop the start, because clients would leave the tool out.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { anyone, facts } from '../support/tools.ts';

const marked = (schema: v.GenericSchema, name: unknown) => v.pipe(schema, v.metadata({ 'x-mcp-header': name }));
const region = marked(v.string(), 'Region');

const paramsOf = (entries: v.ObjectEntries) => paramsOfInput(v.strictObject(entries));

const paramsOfInput = (input: v.GenericSchema<Record<string, unknown>>) =>
  defineTool(anyone, { ...facts('query'), input, run: () => ok({ content: [] }) }).headerParams();

describe('x-mcp-header', () => {
  test('marks texts, integers, booleans and picklists', () => {
    const entries = {
      region: v.optional(region),
      limit: marked(v.pipe(v.number(), v.integer()), 'X-Limit_1'),
      dry: v.optional(marked(v.boolean(), 'Dry'), false),
      kind: marked(v.picklist(['a', 'b']), 'Kind'),
      'x-mcp-header': v.optional(v.string()),
    };
    expect(paramsOf(entries)).toEqual([
      { header: 'Mcp-Param-Region', field: 'region' },
      { header: 'Mcp-Param-X-Limit_1', field: 'limit' },
      { header: 'Mcp-Param-Dry', field: 'dry' },
      { header: 'Mcp-Param-Kind', field: 'kind' },
    ]);
  });

  const NAME = 'expected a name for a header, of letters, digits and "-"';
  const TYPE = 'expected a parameter that is text, an integer or a boolean';
  const PLACE = 'query: x-mcp-header: expected it on fields of the input itself alone';
  const at = (path: string, rest: string) => `query: x-mcp-header of ${path}: ${rest}`;

  test.each<[string, v.ObjectEntries, string]>([
    ['an empty name', { a: marked(v.string(), '') }, at('a', `${NAME}, got ""`)],
    ['a name with a space', { a: marked(v.string(), 'a b') }, at('a', `${NAME}, got "a b"`)],
    ['a name with a line break', { a: marked(v.string(), 'a\r\n') }, at('a', `${NAME}, got "a\\r\\n"`)],
    ['no text', { a: marked(v.string(), 1) }, at('a', `${NAME}, got 1`)],
    ['a number', { a: marked(v.number(), 'A') }, at('a', `${TYPE}, got "number"`)],
    ['an object', { a: marked(v.strictObject({}), 'A') }, at('a', `${TYPE}, got "object"`)],
    ['any value', { a: marked(v.unknown(), 'A') }, at('a', `${TYPE}, got "another"`)],
    [
      'a name twice',
      { region, b: marked(v.string(), 'REGION') },
      at('b', 'expected another name than that of region, got "REGION"'),
    ],
    ['a field of an object', { a: v.looseObject({ b: region }) }, PLACE],
    ['a list', { a: v.array(region) }, PLACE],
    ['an alternative', { a: v.nullable(region) }, PLACE],
    ['an object in a list', { a: v.array(v.strictObject({ b: region })) }, PLACE],
    ['other fields', { a: v.record(v.string(), region) }, PLACE],
  ])('on or with %s is a mistake', (_what, entries, expected) => {
    expect(() => paramsOf(entries)).toThrow(expected);
  });

  test('on the input itself, or in alternatives of it, is a mistake', () => {
    const objectWith = (a: v.GenericSchema) => v.looseObject({ a });
    const ofItself: v.GenericSchema<Record<string, unknown>> = v.looseObject({ more: v.lazy(() => ofRegion) });
    const ofRegion = objectWith(region);
    expect(() => paramsOfInput(v.pipe(objectWith(v.string()), v.metadata({ 'x-mcp-header': 'A' })))).toThrow(PLACE);
    expect(() => paramsOfInput(v.union([ofRegion, objectWith(v.number())]))).toThrow(PLACE);
    expect(() => paramsOfInput(ofItself)).toThrow(PLACE);
  });
});
