// What the compiler demands of a tool or prompt, once more when it is made: a server starts without the compiler, and a
// mistake should stop the start, not the first call.

import { isObject } from '../lib/text.ts';

const CHECKS = {
  text: { expected: 'text', fits: (value: unknown) => typeof value === 'string' },
  function: { expected: 'a function', fits: (value: unknown) => typeof value === 'function' },
  schema: {
    expected: 'a schema, like v.strictObject({})',
    fits: (value: unknown) => isObject(value) && value.kind === 'schema',
  },
} as const;

/** Throws an Error for a definition without the guard that stands before it. */
export function assertGuard(definer: string, guard: unknown, definition: unknown): void {
  if (typeof guard === 'function' && isObject(definition)) return;
  const examples = 'guards.apiKey, or () => ok({}) to let everybody call it';
  throw new Error(`${definer}: expected a guard, and then the definition: ${definer}(${examples}, { … })`);
}

/** Throws an Error that names the field which is not of this kind. */
export function assertKind(
  kind: keyof typeof CHECKS,
  definer: string,
  fields: Readonly<Record<string, unknown>>,
): void {
  const { expected, fits } = CHECKS[kind];
  for (const [field, value] of Object.entries(fields)) {
    if (!fits(value)) throw new Error(`${definer}: ${field}: expected ${expected}, got ${typeof value}`);
  }
}
