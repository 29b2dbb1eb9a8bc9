// A tool as its author defines it: time, cancellation, output that fits its schema, bugs.

import { describe, expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { ok } from '../../../src/lib/result.ts';
import { defineTool } from '../../../src/tools/core/tool.ts';
import type { ToolDeps } from '../../../src/tools/core/toolbox.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createTestApp, failureOf } from '../../support/test-app.ts';
import { anyone, facts } from '../../support/tools.ts';

const schemas = { input: v.strictObject({}), output: v.strictObject({ said: v.string() }) };

describe('time', () => {
  test('a tool that takes longer than its time is stopped with 504, and its signal says so', async () => {
    let stopped: unknown;
    await using app = await createTestApp({
      tools: () => [
        defineTool(anyone, {
          ...facts('slow'),
          ...schemas,
          timeoutMs: 50,
          run: (_input, { signal }) =>
            new Promise((resolve) => {
              signal.addEventListener('abort', () => {
                stopped = signal.reason;
                resolve(ok({ said: 'too late' }));
              });
            }),
        }),
      ],
    });
    const { status, body } = await app.call('slow');
    expect({ status, code: body.code }).toEqual({ status: 504, code: 'tool_timeout' });
    expect(stopped).toBeInstanceOf(Error);
    const told = { level: 'warn', event: 'tool out of time', tool: 'slow', requestId: body.requestId };
    expect(await app.log()).toContainEqual(expect.objectContaining(told));
  });

  test.each([0, -1, Number.NaN, 2 ** 31, Number.POSITIVE_INFINITY])('a time of %d ms is refused', (timeoutMs) => {
    const make = () => defineTool(anyone, { ...facts('odd'), ...schemas, timeoutMs, run: () => ok({ said: '' }) });
    expect(make).toThrow(`odd: timeoutMs: expected above 0 and at most ${2 ** 31 - 1}, got ${timeoutMs}`);
  });

  test('one that answers in time is not stopped', async () => {
    await using app = await createTestApp({
      tools: () => [
        defineTool(anyone, {
          ...facts('quick'),
          ...schemas,
          timeoutMs: 1000,
          run: async () => {
            await Bun.sleep(20);
            return ok({ said: 'in time' });
          },
        }),
      ],
    });
    expect((await app.call('quick')).body).toEqual({ said: 'in time' });
  });
});

describe('a bug in a tool is 500 with nothing but a requestId, and the log has the rest', () => {
  const broken = (run: () => never | Promise<never>) => (deps: ToolDeps) => [
    defineTool(deps.guards.rateLimit({ requests: 5, window: '1m', key: () => undefined }), {
      ...facts('broken'),
      ...schemas,
      run,
    }),
  ];

  test.each([
    [
      'a throw',
      () => {
        throw new Error('the inside story');
      },
    ],
    ['a rejection', () => Promise.reject(new Error('the inside story'))],
  ])('%s', async (_what, run) => {
    await using app = await createTestApp({ tools: broken(run) });
    const { status, headers, body } = await app.call('broken');
    expect(status).toBe(500);
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Internal Server Error',
      status: 500,
      detail: 'Something went wrong on the server',
      code: 'internal',
      requestId: expect.any(String),
    });
    expect(headers.get('ratelimit-policy')).toBe('"key";q=5;w=60');
    expect(headers.get('ratelimit')).toBe('"key";r=4;t=60'); // the call counted
    const line = (await app.log()).find(({ requestId }) => requestId === body.requestId);
    expect(line).toMatchObject({ level: 'error', tool: 'broken', error: expect.stringContaining('the inside story') });
    expect((await app.call('broken')).status).toBe(500);
    const toPage = await app.call('broken', {}, { origin: 'http://localhost:1' });
    expect(toPage.headers.get('access-control-allow-origin')).toBe('http://localhost:1');
  });

  test.each([
    ['wrong', { said: 1 }, 'said: Expected string'],
    ['missing', {}, 'said: This field is required'],
    ['too much', { said: 'x', more: 'secret' }, 'Unknown field; the fields are said'],
  ])('output that does not fit its schema, of which only the log says why: %s', async (_what, output, why) => {
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('odd'), ...schemas, run: () => ok(output as { said: string }) })],
    });
    const { status, body } = await app.call('odd');
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal' });
    expect(JSON.stringify(body)).not.toContain('said');
    const [line] = (await app.log()).filter(({ event }) => event === 'internal error');
    expect(line?.error).toContain(`odd: the output does not fit its schema: ${why}`);
    expect(line?.error).not.toContain('secret');
  });

  test.each([
    ['a bare object', { said: 'x' }],
    ['nothing', undefined],
  ])('%s returned instead of a result', async (_what, returned) => {
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('bare'), ...schemas, run: () => returned as never })],
    });
    expect((await app.call('bare')).status).toBe(500);
    const [line] = (await app.log()).filter(({ event }) => event === 'internal error');
    expect(line?.error).toContain('bare: expected run to return ok(…) or err(…)');
  });
});

test('a tool without an output schema answers with its content blocks', async () => {
  await using app = await createTestApp({
    tools: () => [
      defineTool(anyone, {
        ...facts('blocks'),
        input: v.strictObject({}),
        run: () => ok({ content: [{ type: 'text' as const, text: 'hello' }] }),
      }),
    ],
  });
  expect((await app.call('blocks')).body).toEqual({ content: [{ type: 'text', text: 'hello' }] });
});

describe('a name that cannot be used stops the start', () => {
  const toolsNamed = (names: readonly string[]) =>
    names.map((name) => defineTool(anyone, { ...facts(name), ...schemas, run: () => ok({ said: name }) }));
  const named = (...names: string[]) => createTestApp({ tools: () => toolsNamed(names) });

  test.each([
    ['none', [''], 'got ""'],
    ['one with a slash', ['a/b'], 'got "a/b"'],
    ['one that is too long', ['x'.repeat(129)], `got "${'x'.repeat(129)}"`],
    ['one that two tools have', ['echo', 'other', 'echo'], 'got "echo" twice'],
  ])('%s', async (_what, names, found) => {
    expect(await failureOf(named(...names))).toContain(found);
  });

  test('and the database that was opened is closed again', async () => {
    const folder = temporaryFolder();
    await failureOf(createTestApp({ folder, store: 'embedded', tools: () => toolsNamed(['a/b']) }));
    const bytesOf = (file: string) => statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0;
    expect(bytesOf('keys.db')).toBeGreaterThan(0);
    expect(bytesOf('keys.db-wal')).toBe(0); // what closing in order leaves: everything is in the file itself
  });

  test('any other is served', async () => {
    await using app = await named('x'.repeat(128), 'Other.name-2');
    expect((await app.call('x'.repeat(128))).status).toBe(200);
    expect((await app.call('Other.name-2')).status).toBe(200);
  });
});

describe('its schemas', () => {
  test('are of objects: another root does not compile', () => {
    // @ts-expect-error: MCP clients would refuse the whole list of tools
    defineTool(anyone, { ...facts('array'), ...schemas, output: v.array(v.string()), run: () => ok(['x']) });
    // @ts-expect-error: nor can its arguments be a string
    defineTool(anyone, { ...facts('text'), ...schemas, input: v.string(), run: () => ok({ said: 'x' }) });
  });

  test('may have alternatives at their root, which say that they are objects', () => {
    const input = v.variant('by', [
      v.strictObject({ by: v.literal('id'), id: v.string() }),
      v.strictObject({ by: v.literal('name'), name: v.string() }),
    ]);
    const tool = defineTool(anyone, { ...facts('find'), ...schemas, input, run: ({ by }) => ok({ said: by }) });
    expect(tool.inputSchema()).toMatchObject({ type: 'object', oneOf: [{ type: 'object' }, { type: 'object' }] });
  });

  test.each([
    ['a format', v.pipe(v.number(), v.integer()), 1.5, 'Expected integer'],
    ['another', v.pipe(v.string(), v.isoDate()), 'soon', 'Expected iso date'],
    [
      'a function',
      v.pipe(
        v.string(),
        v.check(() => false),
      ),
      'x',
      'Expected another value',
    ],
    ['one with a message of its own', v.pipe(v.string(), v.email('Expected an address')), 'x', 'Expected an address'],
  ])('say of a value what was expected: %s', async (_what, value, given, message) => {
    const input = v.strictObject({ value });
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('take'), ...schemas, input, run: () => ok({ said: 'x' }) })],
    });
    expect((await app.call('take', { value: given })).body.issues).toEqual([{ path: 'value', message }]);
  });

  test('have checks that JSON Schema has no words for, which are left out of what clients are told', () => {
    const code = v.pipe(v.string(), v.regex(/^[a-z]{3}$/i));
    const input = v.pipe(
      v.strictObject({ name: v.pipe(v.string(), v.trim(), v.minLength(1), v.brand('Name')), code }),
      v.check(({ name, code }) => name !== code),
    );
    const tool = defineTool(anyone, { ...facts('find'), ...schemas, input, run: ({ name }) => ok({ said: name }) });
    const { properties } = JSON.parse(JSON.stringify(tool.inputSchema()));
    expect(properties).toEqual({ name: { type: 'string', minLength: 1 }, code: { type: 'string' } });
  });

  test('that JSON Schema has no words for are reported with the name of the tool', async () => {
    const output = v.strictObject({ at: v.date() });
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('clock'), ...schemas, output, run: () => ok({ at: new Date(0) }) })],
    });
    expect((await fetch(`${app.url}/openapi.json`)).status).toBe(500);
    expect((await app.log()).at(-1)?.error).toContain('clock: The "date" schema cannot be converted');
  });
});
