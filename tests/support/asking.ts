// Tools that ask, and rounds of calls to them, in 2026-07-28.

import * as v from 'valibot';
import { type Call, defineTool, form, ok, type ToolDeps } from '../../src/start/package/index.ts';
import { postModern } from './mcp.ts';
import { createTestApp, insertKey, type TestApp } from './test-app.ts';
import { anyone, facts, noInput } from './tools.ts';

export const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
export const ALL = { elicitation: {} };

export const person = form(v.strictObject({ name: v.pipe(v.string(), v.minLength(2)), age: v.optional(v.number()) }));
const color = form(v.strictObject({ color: v.picklist(['red', 'blue']) }));
const haiku = form(v.strictObject({ haiku: v.string() }))('A haiku');

export const input = v.strictObject({ title: v.optional(v.string()), city: v.optional(v.string()) });
export const output = v.strictObject({ answers: v.unknown() });

/** Asks for a person; then for a color and a haiku at once. */
const greet = ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    ...facts('greet'),
    input,
    output,
    run({ title = 'you' }, { ask }) {
      const first = ask({ who: person(`Who are ${title}?`) });
      if (!first.ok) return first;
      const second = ask({ color: color('Which color?'), haiku });
      if (!second.ok) return second;
      return ok({ answers: { ...first.value, ...second.value } });
    },
  });

/** Asks for a person once. */
const asking = (name: string) => ({
  ...facts(name),
  input,
  output,
  run(_input: unknown, call: Call) {
    const asked = call.ask({ who: person('Who are you?') });
    return asked.ok ? ok({ answers: asked.value }) : asked;
  },
});

export const ask = ({ guards }: ToolDeps, name = 'ask') => defineTool(guards.apiKey, asking(name));
const mine = ({ guards }: ToolDeps) => defineTool(guards.userJwt, asking('mine'));

/** Asks all there is at once, whoever calls. */
export const everything = defineTool(anyone, {
  ...noInput('everything'),
  output,
  run(_input, call) {
    const asked = call.ask({ who: person('Who?'), haiku });
    return asked.ok ? ok({ answers: asked.value }) : asked;
  },
});

export const serveAsking = (env = {}) =>
  createTestApp({ env, tools: (deps) => [greet(deps), ask(deps), ask(deps, 'other'), mine(deps)] });

export const accept = (content: object) => ({ action: 'accept', content });
export const ALICE = accept({ name: 'Alice' });
export const BLUE = accept({ color: 'blue' });
export const HAIKU = accept({ haiku: 'An old pond' });

interface Round {
  readonly headers: Record<string, string>;
  readonly capabilities?: object;
  readonly params?: object;
}

/** One round of a call. */
export async function round(app: TestApp, name: string, { headers, capabilities = ALL, params = {} }: Round) {
  const meta = { [CAPABILITIES]: capabilities };
  const response = await postModern(app, 'tools/call', { name, arguments: {}, ...params }, { headers, meta });
  const { result, error } = response.body;
  return { ...response, result, error, state: result?.requestState as string };
}

export const keyOf = async (app: TestApp, owner = 'alice') => ({ 'x-api-key': await insertKey(app, owner) });

/** What a client could read in a state. */
export const payloadOf = (state: string) =>
  JSON.parse(atob((state.split('.')[0] ?? '').replace(/-/g, '+').replace(/_/g, '/')));
