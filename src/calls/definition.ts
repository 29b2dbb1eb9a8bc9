// Checks at start-up what the compiler demands of a tool or prompt: a server starts without the compiler, and a mistake
// should stop the start rather than the first call.

import { isObject } from '../ground/text.ts';

const KINDS = {
  text: { expected: 'text', fits: (value: unknown) => typeof value === 'string' },
  function: { expected: 'a function', fits: (value: unknown) => typeof value === 'function' },
  schema: {
    expected: 'a schema, like v.strictObject({})',
    fits: (value: unknown) => isObject(value) && value.kind === 'schema',
  },
};

/** Throws an Error that names the wrong field, or says that the guard before the definition is missing. */
export function assertDefinition(
  definer: string,
  guard: unknown,
  definition: unknown,
  schemas: readonly string[],
): void {
  if (typeof guard !== 'function' || !isObject(definition)) {
    const examples = 'guards.apiKey, or () => ok({}) to let everybody call it';
    throw new Error(`${definer}: expected a guard, and then the definition: ${definer}(${examples}, { … })`);
  }
  const assertKind = (kind: keyof typeof KINDS, field: string, whose: unknown = definition.name): void => {
    const { expected, fits } = KINDS[kind];
    const value = definition[field];
    if (!fits(value)) throw new Error(`${whose}: ${field}: expected ${expected}, got ${typeof value}`);
  };
  assertKind('text', 'name', definer);
  assertKind('text', 'title');
  assertKind('text', 'description');
  for (const schema of schemas) assertKind('schema', schema);
  assertKind('function', 'run');
}
