// Which marks of headers in a tool's input stop the start, because clients would leave the tool out.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { headerParams } from '../../src/calls/header-params.ts';
import { defineTool } from '../../src/calls/tool.ts';
import { ok } from '../../src/lib/result.ts';
import { anyone, facts } from '../support/tools.ts';

const marked = (schema: v.GenericSchema, name: unknown) => v.pipe(schema, v.metadata({ 'x-mcp-header': name }));
const region = marked(v.string(), 'Region');

function paramsOf(entries: v.ObjectEntries) {
  const input = v.strictObject(entries);
  const tool = defineTool(anyone, { ...facts('query'), input, run: () => ok({ content: [] }) });
  return headerParams(tool.name, tool.inputSchema());
}

describe('x-mcp-header', () => {
  test('marks texts, integers, booleans and picklists, in objects too', () => {
    const entries = {
      region: v.optional(region),
      limit: marked(v.pipe(v.number(), v.integer()), 'X-Limit_1'),
      dry: v.optional(marked(v.boolean(), 'Dry'), false),
      where: v.looseObject({ kind: marked(v.picklist(['a', 'b']), 'Kind') }),
      'x-mcp-header': v.optional(v.string()),
      other: v.optional(v.pipe(v.array(v.unknown()), v.metadata({ default: [{ 'x-mcp-header': 'a value' }] }))),
    };
    expect(paramsOf(entries)).toEqual([
      { header: 'Mcp-Param-Region', path: ['region'] },
      { header: 'Mcp-Param-X-Limit_1', path: ['limit'] },
      { header: 'Mcp-Param-Dry', path: ['dry'] },
      { header: 'Mcp-Param-Kind', path: ['where', 'kind'] },
    ]);
  });

  const NAME = 'expected a name for a header, of letters, digits and "-"';
  const TYPE = 'expected a parameter that is text, an integer or a boolean';
  const PLACE = 'expected it on a field, not in a list or an alternative';
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
    ['a list', { a: v.array(region) }, at('a', `${PLACE}, got "Region"`)],
    ['an alternative', { a: v.nullable(region) }, at('a', `${PLACE}, got "Region"`)],
    ['an object in a list', { a: v.array(v.strictObject({ b: region })) }, at('a.b', `${PLACE}, got "Region"`)],
    ['other fields', { a: v.record(v.string(), region) }, at('a', `${PLACE}, got "Region"`)],
  ])('on or with %s is a mistake', (_what, entries, expected) => {
    expect(() => paramsOf(entries)).toThrow(expected);
  });

  test('on the input itself, or in alternatives of it, is a mistake', () => {
    const text = { type: 'string', 'x-mcp-header': 'A' };
    expect(() => headerParams('query', { type: 'object', 'x-mcp-header': 'A' })).toThrow(at('the input', PLACE));
    expect(() => headerParams('query', { oneOf: [{ properties: { a: text } }] })).toThrow(at('a', PLACE));
    expect(() => headerParams('query', { $defs: { b: { properties: { a: text } } } })).toThrow(at('b.a', PLACE));
  });
});
