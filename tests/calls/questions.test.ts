// Forms: which fields clients can show, and what they are sent of a schema.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { definePrompt, form, ok } from '../../src/start/package/index.ts';
import { anyone, promptFacts } from '../support/tools.ts';

describe('a form that clients can not show is refused where it is made', () => {
  test.each([
    ['an object', v.strictObject({ a: v.string() })],
    ['an array of strings', v.array(v.string())],
    ['an array of objects', v.array(v.strictObject({}))],
    ['a nullable', v.nullable(v.string())],
    ['a union', v.union([v.string(), v.number()])],
    ['a literal', v.literal('a')],
  ])('%s', (_what, field) => {
    expect(() => form(v.strictObject({ name: v.string(), field }))).toThrow(
      'form: expected strings, numbers, booleans, picklists and arrays of picklists, got another type for "field"',
    );
  });

  test.each([
    ['intersect', v.intersect([v.strictObject({ a: v.string() }), v.strictObject({ b: v.string() })])],
    ['record', v.record(v.string(), v.string())],
  ])('one of unknown fields, like v.%s()', (type, schema) => {
    const said = `expected the schema of an object, like v.strictObject({}), got v.${type}()`;
    expect(() => form(schema)).toThrow(`form: ${said}`);
    const make = () =>
      definePrompt(anyone, { ...promptFacts('p'), arguments: schema, run: () => ok({ messages: [] }) });
    expect(make).toThrow(`p: arguments: ${said}`); // a prompt's arguments are a form, too
  });

  test('one without a question, where it is asked', () => {
    const ask = form(v.strictObject({ name: v.string() })) as (message?: string) => unknown;
    expect(() => ask()).toThrow('form: expected the question as a text, got undefined');
  });

  test('without a required field it is asked again, whatever the name of the field', () => {
    const { read } = form(v.strictObject({ constructor: v.string() }))('Who has built it?');
    const accepted = (content: object) => read({ action: 'accept', content });
    expect(accepted({})).toEqual(ok('incomplete'));
    expect(accepted({ constructor: 'me' })).toMatchObject(ok({ answer: { content: { constructor: 'me' } } }));
  });

  test('without a field that may be left out it is answered, whatever the name of the field', () => {
    const { read } = form(v.strictObject({ constructor: v.optional(v.string()) }))('Who has built it?');
    expect(read({ action: 'accept', content: {} })).toMatchObject(ok({ answer: { action: 'accept', content: {} } }));
  });

  test('what they can show is what they are sent, without the keywords they do not know', () => {
    const { params } = form(
      v.strictObject({
        name: v.pipe(v.string(), v.title('Name'), v.minLength(1), v.maxLength(9), v.regex(/^a/)),
        mail: v.pipe(v.string(), v.email()),
        id: v.optional(v.pipe(v.string(), v.uuid())),
        count: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(5)), 2),
        sure: v.boolean(),
        size: v.picklist(['s', 'm']),
        colors: v.pipe(v.array(v.picklist(['red', 'blue'])), v.minLength(1)),
      }),
    )('Fill in').request;
    expect(params.requestedSchema).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', title: 'Name', minLength: 1, maxLength: 9 },
        mail: { type: 'string', format: 'email' },
        id: { type: 'string' },
        count: { type: 'integer', minimum: 1, maximum: 5, default: 2 },
        sure: { type: 'boolean' },
        size: { type: 'string', enum: ['s', 'm'] },
        colors: { type: 'array', minItems: 1, items: { type: 'string', enum: ['red', 'blue'] } },
      },
      required: ['name', 'mail', 'sure', 'size', 'colors'],
    });
  });
});
