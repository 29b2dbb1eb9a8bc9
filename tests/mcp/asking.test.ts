// Tools that ask before they answer (2026-07-28, multi round-trip requests): rounds, responses, and who can be asked.

import { describe, expect, test } from 'bun:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import * as v from 'valibot';
import { definePrompt, defineTool, ok } from '../../src/start/package/index.ts';
import {
  ALICE,
  ALL,
  accept,
  BLUE,
  CAPABILITIES,
  everything,
  HAIKU,
  input,
  keyOf,
  output,
  payloadOf,
  person,
  round,
  serveAsking,
} from '../support/asking.ts';
import { eventReader, fetchMcp, modern, post, postModern, WAYS } from '../support/mcp.ts';
import { shared } from '../support/shared.ts';
import { createTestApp, sharedApp } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';

const app = await shared(serveAsking());
/** Anybody may call its tool. */
const open = await sharedApp({ tools: () => [everything] });
const headers = await keyOf(app);

describe('rounds', () => {
  test('a call ends after several rounds of one or more questions', async () => {
    const first = await round(app, 'greet', { headers });
    expect(first.status).toBe(200);
    expect(first.result).toEqual({
      resultType: 'input_required',
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'mcp-key-server', version: '1.0.0' } },
      inputRequests: {
        who: {
          method: 'elicitation/create',
          params: {
            mode: 'form',
            message: 'Who are you?',
            requestedSchema: {
              type: 'object',
              properties: { name: { type: 'string', minLength: 2 }, age: { type: 'number' } },
              required: ['name'],
            },
          },
        },
      },
      requestState: expect.any(String),
    });
    const params = { inputResponses: { who: ALICE }, requestState: first.state };
    const second = await round(app, 'greet', { headers, params });
    expect(Object.keys(second.result.inputRequests)).toEqual(['color', 'haiku']);
    const last = { inputResponses: { color: BLUE, haiku: HAIKU }, requestState: second.state };
    const third = await round(app, 'greet', { headers, params: last });
    expect(third.result.resultType).toBe('complete');
    expect(third.result.structuredContent.answers).toEqual({
      who: ALICE,
      color: BLUE,
      haiku: HAIKU,
    });
  });

  test('only what is missing is asked again, and an answer of an earlier round stays', async () => {
    const half = await round(app, 'greet', { headers, params: { inputResponses: { who: ALICE, color: BLUE } } });
    expect(Object.keys(half.result.inputRequests)).toEqual(['haiku']);
    const others = { haiku: HAIKU, color: accept({ color: 'red' }) };
    const params = { inputResponses: others, requestState: half.state };
    const { answers } = (await round(app, 'greet', { headers, params })).result.structuredContent;
    expect(answers.color).toEqual(BLUE);
  });

  test('responses without a state count', async () => {
    const params = { inputResponses: { who: ALICE, color: BLUE, haiku: HAIKU } };
    const { result } = await round(app, 'greet', { headers, params });
    expect(result.structuredContent.answers.who).toEqual(ALICE);
  });

  test('responses that nobody asked for are ignored, and not carried on', async () => {
    const nobodys = { unknown: accept({ x: 1 }), toString: ALICE, ['__proto__']: ALICE };
    const { result, state } = await round(app, 'greet', {
      headers,
      params: { inputResponses: { ...nobodys, color: BLUE } },
    });
    expect(Object.keys(result.inputRequests)).toEqual(['who']);
    expect(payloadOf(state).responses).toEqual({});
  });

  test.each(['decline', 'cancel'])('%s is an answer, with content or without', async (action) => {
    for (const who of [{ action }, { action, content: null }, { action, content: { name: 7 } }]) {
      const { result } = await round(app, 'ask', { headers, params: { inputResponses: { who } } });
      expect(result.structuredContent.answers).toEqual({ who: { action } });
    }
  });

  test.each([
    ['without its content', { action: 'accept' }],
    ['with an empty one', accept({})],
    ['with another field alone', accept({ age: 7 })],
    ['with a name that every object has', accept({ toString: 'Alice' })],
  ])('an accepted form %s is asked for again', async (_what, who) => {
    const { result, state } = await round(app, 'greet', { headers, params: { inputResponses: { who } } });
    expect([result.resultType, Object.keys(result.inputRequests)]).toEqual(['input_required', ['who']]);
    expect(payloadOf(state).responses).toEqual({});
    const params = { inputResponses: { who: ALICE }, requestState: state };
    const next = await round(app, 'greet', { headers, params });
    expect(Object.keys(next.result.inputRequests)).toEqual(['color', 'haiku']);
  });

  test('a field that the form does not have is ignored, and not carried on', async () => {
    const who = accept({ name: 'Alice', nickname: 'sk_test_secret', ['__proto__']: { age: 7 } });
    const asked = await round(app, 'ask', { headers, params: { inputResponses: { who } } });
    expect(asked.result.structuredContent.answers).toEqual({ who: ALICE });
    const { state } = await round(app, 'greet', { headers, params: { inputResponses: { who } } });
    expect(payloadOf(state).responses).toEqual({ who: ALICE });
  });

  test('every round counts against the rate limit, and passes the guards', async () => {
    await using own = await serveAsking({ RATE_LIMIT_REQUESTS: '2' });
    const headers = await keyOf(own);
    const first = await round(own, 'greet', { headers });
    const params = { inputResponses: { who: ALICE }, requestState: first.state };
    const second = await round(own, 'greet', { headers, params });
    expect([first, second].map((one) => one.headers.get('ratelimit')?.split(';')[1])).toEqual(['r=1', 'r=0']);
    const third = await round(own, 'greet', { headers, params });
    expect(third.result).toMatchObject({ isError: true, resultType: 'complete' });
    const stranger = await round(own, 'greet', { headers: {}, params });
    expect(stranger.result.content[0].text).toBe('No API key provided');
  });

  test('a tool that told its progress asks on the stream', async () => {
    const slow = defineTool(anyone, {
      ...facts('slow'),
      input,
      output,
      run(_input, { ask, progress }) {
        progress(1, 2);
        const asked = ask({ who: person('Who are you?') });
        return Promise.resolve(asked.ok ? ok({ answers: asked.value }) : asked);
      },
    });
    await using own = await createTestApp({ tools: () => [slow] });
    const made = modern('tools/call', { name: 'slow' }, { [CAPABILITIES]: ALL, progressToken: 1 });
    const response = await fetchMcp(own, made.body, made.headers);
    if (response.body === null) throw new Error('no body');
    const [told, asked] = (await eventReader(response.body).rest()).map(({ data }) => JSON.parse(data));
    expect([told.method, asked.result.resultType]).toEqual(['notifications/progress', 'input_required']);
  });

  test('SDK v2 answers two forms in one round', async () => {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { capabilities: ALL, versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    client.setRequestHandler('elicitation/create', ({ params: { message } }) => ({
      action: 'accept',
      content: message === 'Who?' ? { name: 'Alice' } : { haiku: 'An old pond' },
    }));
    await client.connect(new StreamableHTTPClientTransport(new URL(`${open.url}/mcp`)));
    const { structuredContent } = await client.callTool({ name: 'everything', arguments: {} });
    expect(structuredContent).toEqual({
      answers: {
        who: ALICE,
        haiku: HAIKU,
      },
    });
    await client.close();
  });

  test('a prompt asks as a tool does', async () => {
    await using own = await createTestApp({
      prompts: ({ guards }) => [
        definePrompt(guards.apiKey, {
          name: 'letter',
          title: 'Letter',
          description: 'A letter.',
          arguments: v.strictObject({ to: v.string() }),
          run({ to }, call) {
            const asked = call.ask({ who: person('Who are you?') });
            if (!asked.ok) return asked;
            const text = `${to}, ${JSON.stringify(asked.value.who)}`;
            return ok({ messages: [{ role: 'user', content: { type: 'text', text } }] });
          },
        }),
      ],
    });
    const headers = await keyOf(own);
    const get = async (to: string, more: object = {}) =>
      (
        await postModern(
          own,
          'prompts/get',
          { name: 'letter', arguments: { to }, ...more },
          { headers, meta: { [CAPABILITIES]: ALL } },
        )
      ).body;
    const { result } = await get('Bob');
    expect([result.resultType, Object.keys(result.inputRequests)]).toEqual(['input_required', ['who']]);
    const more = { inputResponses: { who: ALICE }, requestState: result.requestState };
    expect((await get('Bob', more)).result.messages[0].content.text).toBe(`Bob, ${JSON.stringify(ALICE)}`);
    expect((await get('Eve', more)).error.code).toBe(-32602);
    expect((await get('Bob', { inputResponses: { who: 7 } })).error.code).toBe(-32602);
  });
});

describe('responses of a wrong form are -32602, and nothing of them is repeated', () => {
  test.each<[string, unknown]>([
    ['a number', { who: 12345 }],
    ['null', { who: null }],
    ['an array', { who: [] }],
    ['without an action', { who: { content: { name: 'Alice' } } }],
    ['with an unknown action', { who: { action: 'sk_test_secret' } }],
    ['with content null', { who: accept(null as unknown as object) }],
    ['with a field of another type', { who: accept({ name: 7 }) }],
    ['with a field that is too short', { who: accept({ name: 'A' }) }],
    ['that are an array', []],
    ['that are null', null],
    ['that are a string', 'sk_test_secret'],
  ])('%s', async (_what, inputResponses) => {
    const { status, error } = await round(app, 'ask', { headers, params: { inputResponses } });
    expect([status, error.code]).toEqual([200, -32602]);
    expect(JSON.stringify(error)).not.toContain('sk_test_secret');
  });

  test('what is wrong is named by its question', async () => {
    const { error } = await round(app, 'ask', { headers, params: { inputResponses: { who: accept({ name: 7 }) } } });
    expect(error.data.issues).toEqual([{ path: 'who.name', message: 'Expected string' }]);
  });
});

test('what a response has beside the answer is not carried on, however deep it is', async () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const { body, headers: mirrored } = modern(
    'tools/call',
    {
      name: 'greet',
      arguments: {},
      inputResponses: { who: { ...ALICE, _meta: 'deep' }, color: { action: 'decline', content: 'deep' } },
    },
    { [CAPABILITIES]: ALL },
  );
  const text = JSON.stringify(body).replaceAll('"deep"', deep);
  const { result } = (await post(app, text, { ...mirrored, ...headers })).body;
  expect(payloadOf(result.requestState).responses).toEqual({ who: ALICE, color: { action: 'decline' } });
});

describe('all responses to a call together', () => {
  const BYTES_MAX = 256 * 1024;

  test.each([
    ['at the limit go on to the next round', '', 'x', 0, 'input_required'],
    ['above it are -32602', '', 'x', 1, -32602],
    ['at the limit in characters of three bytes go on to the next round', 'xx', '鍵', 0, 'input_required'],
    ['above it in bytes, not in characters, are -32602', 'xxx', '鍵', 3, -32602],
  ])('%s', async (_what, start, character, above, expected) => {
    const bytesOf = (text: string) => new TextEncoder().encode(text).length;
    const overhead = bytesOf(JSON.stringify({ who: accept({ name: start }) }));
    const name = start + character.repeat(Math.floor((BYTES_MAX - overhead + above) / bytesOf(character)));
    const params = { inputResponses: { who: accept({ name }) } };
    const { result, error, state } = await round(app, 'greet', { headers, params });
    expect(result?.resultType ?? error.code).toBe(expected);
    if (above > 0) return;
    const last = { inputResponses: { color: BLUE, haiku: HAIKU }, requestState: state };
    const { structuredContent } = (await round(app, 'greet', { headers, params: last })).result;
    expect(structuredContent.answers.who.content.name).toBe(name);
  });
});

describe('who can be asked', () => {
  const UNAVAILABLE = { who: { action: 'unavailable' }, haiku: { action: 'unavailable' } };

  test.each([
    ['nothing', {}, []],
    ['forms', ALL, ['who', 'haiku']],
    ['forms by name', { elicitation: { form: {}, url: {} } }, ['who', 'haiku']],
    ['links alone', { elicitation: { url: {} } }, []],
    ['its model and its folders', { sampling: {}, roots: {} }, []],
    ['values that are no objects', { elicitation: true }, []],
  ])('a client that declares %s', async (_what, capabilities, asked) => {
    const { result } = await round(open, 'everything', { headers: {}, capabilities });
    expect(Object.keys(result.inputRequests ?? {})).toEqual(asked);
    if (asked.length > 0) return;
    const answering = { headers: {}, capabilities, params: { inputResponses: { who: ALICE } } };
    for (const { structuredContent } of [result, (await round(open, 'everything', answering)).result]) {
      expect(structuredContent).toEqual({ answers: UNAVAILABLE });
    }
  });

  test('nobody over REST, over /sse, in a batch, or with an older revision, whatever they send', async () => {
    expect((await open.call('everything')).body).toEqual({ answers: UNAVAILABLE });
    const params = {
      ...{ name: 'everything', arguments: {}, inputResponses: { who: ALICE }, requestState: 'x' },
      _meta: { [CAPABILITIES]: ALL },
    };
    for (const ask of [WAYS.legacy, WAYS.batch, WAYS.sse]) {
      expect((await ask(open, 'tools/call', params)).result.structuredContent).toEqual({ answers: UNAVAILABLE });
    }
  });
});
