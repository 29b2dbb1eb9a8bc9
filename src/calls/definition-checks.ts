// Checks what tool files provide. JavaScript files run without the compiler, and a mistake should fail the start with
// one helpful line, not the first call.

import * as v from 'valibot';
import { COST_MAX } from '../ground/rate-limit.ts';
import { parseDuration } from '../ground/runtime.ts';
import { isJson, isObject, isScope } from '../ground/text.ts';

/** Describes a field. The schema's message is what the sentence says after `expected`. */
const field = (expected: string, fits: (value: unknown) => boolean) => v.custom(fits, expected);

type Fields = Readonly<
  Record<string, { readonly message?: unknown; readonly wrapped?: { readonly message?: unknown } }>
>;

/** Unknown fields are faults, because a misspelt one has no effect. */
type Shape = v.GenericSchema & { readonly entries: Fields };

/** Returns the first fault of an object, such as `title: expected text, got undefined`, or null. */
export function faultIn(shape: Shape, given: object): string | null {
  const faults = (v.safeParse(shape, given).issues ?? []).map(
    ({ path, input }) => [String(path?.[0].key), input] as const,
  );
  const unknown = faults.find(([name]) => !Object.hasOwn(shape.entries, name));
  if (unknown !== undefined)
    return `${unknown[0]}: unknown field; the fields are ${Object.keys(shape.entries).join(', ')}`;
  const [first] = faults;
  if (first === undefined) return null;
  const { wrapped, message } = shape.entries[first[0]] ?? {};
  return wrongField(first[0], String(wrapped?.message ?? message), first[1]); // a missing field's issue has other words
}

/** Throws an Error, whose message begins with `name`, if the object has a fault. */
export function assertFields(name: string, shape: Shape, given: object): void {
  const fault = faultIn(shape, given);
  if (fault !== null) throw new Error(`${name}: ${fault}`);
}

export const wrongField = (name: string, expected: string, got: unknown): string =>
  `${name}: expected ${expected}, got ${shown(got)}`;

const SHOWN_CHARS_MAX = 200;

function shown(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint' || value === null) return String(value);
  if (typeof value !== 'string') return typeof value;
  return value.length > SHOWN_CHARS_MAX ? `a text of ${value.length} characters` : JSON.stringify(value);
}

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isWhole = (value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): value is number =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;

const isFunction = (value: unknown): boolean => typeof value === 'function';

const TEXT = field('text', isText);
const OBJECT = field('an object', isObject);
const FUNCTION = field('a function', isFunction);

// Tools and prompts

const SCHEMA = field(
  'a schema of valibot 1, like v.strictObject({})',
  (value) => isObject(value) && value.kind === 'schema' && typeof value['~run'] === 'function',
);

/** The schema of settings, as the only field. */
export const SETTINGS = v.strictObject({ settings: SCHEMA });

/** What MCP allows (2025-11-25, server/tools, "Tool Names"), except `.` and `..`, which a URL's path would resolve. */
const NAME_PATTERN = /^(?!\.\.?$)[\w.-]{1,128}$/;
const NAME = field('1-128 letters, digits, "_", "-" or "."', (value) => isText(value) && NAME_PATTERN.test(value));

/** The longest delay of a timer, 24 days. With a longer one it would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
const TIMEOUT_MS = field(
  `above 0 and at most ${TIMEOUT_MS_MAX}`,
  (value) => typeof value === 'number' && value > 0 && value <= TIMEOUT_MS_MAX,
);

const HINT_NAMES: readonly string[] = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];

/** Clients refuse the whole list of tools if one has hints of another type. */
const HINTS = field(
  `${HINT_NAMES.join(', ')}, each true or false`,
  (value) =>
    isObject(value) &&
    Object.entries(value).every(([name, hint]) =>
      name === 'title' ? isText(hint) : HINT_NAMES.includes(name) && typeof hint === 'boolean',
    ),
);

const CAPABILITIES = field(
  'capabilities, like { elicitation: {} }',
  (value) => isObject(value) && Object.values(value).every(isObject),
);

const FACTS = { name: NAME, title: TEXT, description: TEXT, timeoutMs: v.optional(TIMEOUT_MS) };

const DEFINITIONS = {
  defineTool: v.strictObject({
    ...FACTS,
    input: SCHEMA,
    output: v.optional(SCHEMA),
    annotations: v.optional(HINTS),
    requiresClient: v.optional(CAPABILITIES),
    widget: v.optional(TEXT),
    sample: v.optional(OBJECT),
    cost: v.optional(field(`a whole number from 1 to ${COST_MAX}`, (value) => isWhole(value, 1, COST_MAX))),
    run: FUNCTION,
  }),
  definePrompt: v.strictObject({ ...FACTS, arguments: SCHEMA, run: FUNCTION, complete: v.optional(OBJECT) }),
};

/** Throws an Error that names the wrong field, or says that the guard argument is missing. */
export function assertDefinition(define: keyof typeof DEFINITIONS, guard: unknown, definition: unknown): void {
  if (!isGuard(guard) || !isObject(definition)) {
    const examples = 'guards.apiKey, or () => ok({}) to let everybody call it';
    throw new Error(`${define}: expected a guard, and then the definition: ${define}(${examples}, { … })`);
  }
  const { name } = definition;
  assertFields(define, v.strictObject({ name: NAME }), { name });
  assertFields(String(name), DEFINITIONS[define], definition);
  assertGuard(String(name), guard);
}

/** Throws an Error for a prompt's completer that is no function, or that completes no argument. */
export function assertCompleters(prompt: string, args: readonly { readonly name: string }[], completers: object): void {
  const functions = Object.fromEntries(args.map(({ name }) => [name, v.optional(FUNCTION)]));
  assertFields(`${prompt}: complete`, v.strictObject(functions), completers);
}

/** Returns whether a value is a URI. Clients that parse the URIs of resources refuse the whole list for another text. */
const isUri = (value: unknown): boolean => isText(value) && !/\s/.test(value) && URL.canParse(value);

/** One of the `resources` that an operator's file exports. */
export const RESOURCE = v.strictObject({
  uri: field('a URI like ui://widget/orders.html', isUri),
  name: TEXT,
  title: TEXT,
  description: TEXT,
  mimeType: TEXT,
  meta: v.optional(field('an object that JSON can express', (value) => isObject(value) && isJson(value))), // for the list
  read: FUNCTION,
});

const LIST = v.optional(field('an array', Array.isArray));

/** What a program adds to the server (tools/folder/tool-file.ts). */
export const CUSTOM = v.strictObject({ tools: LIST, prompts: LIST, resources: LIST });

// Guards

/** The options of guards.rateLimit. */
export const RATE_LIMIT = v.strictObject({
  requests: field('a whole number of requests, 1 or more', (value) => isWhole(value, 1)),
  window: field('a window like 30s, 5m, 1h or 1d', (value) => isText(value) && parseDuration(value) !== null),
  key: field('a function that names the bucket of a call', isFunction),
});

/** Marks functions that create guards, like guards.scopes: they must be called first. */
export const CREATES_GUARDS = { createsGuards: true };

/** The properties of guards (guard.ts). */
interface GuardFacts {
  readonly credential?: string | undefined;
  readonly requiredScopes?: readonly unknown[] | undefined;
  readonly follows?: keyof typeof FOLLOWERS | undefined;
}

/** What is expected of the guard that follows the one of each credential: its place, and that one before it. */
const FOLLOWERS = {
  api_key: {
    place: 'the guard of scopes after that of the API key',
    before: 'guards.apiKey before guards.scopes: only keys have scopes',
  },
  user_jwt: {
    place: 'the guard of admins after that of the user token',
    before: 'guards.userJwt before guards.admin: only people are admins',
  },
} as const;

const isGuard = (value: unknown): value is GuardFacts => typeof value === 'function' && !('createsGuards' in value);

const asksForCredential = ({ credential }: GuardFacts): boolean => credential !== undefined;

/** Throws an Error for a sequence of guards that the compiler would refuse. */
export function assertSequence(guards: readonly GuardFacts[]): void {
  const refuse = (expected: string) => new Error(`sequence: expected ${expected}`);
  if (guards.length === 0) throw refuse('guards, got none: everybody would pass');
  const odd = guards.findIndex((guard) => !isGuard(guard));
  if (odd !== -1) {
    const got = isFunction(guards[odd]) ? 'one that is to be called first' : typeof guards[odd];
    throw refuse(`a guard in place ${odd + 1}, got ${got}`);
  }
  if (guards.filter(asksForCredential).length > 1) {
    throw refuse('one guard that asks for a credential, got several');
  }
  const before = guards.slice(0, Math.max(guards.findIndex(asksForCredential), 0));
  const early = before.find(({ follows }) => follows !== undefined)?.follows;
  if (early !== undefined) throw refuse(FOLLOWERS[early].place);
}

const isImpossible = (scope: unknown): boolean => !isText(scope) || !isScope(scope);

/** Throws an Error for guards that could admit nobody. */
function assertGuard(name: string, { credential, requiredScopes = [], follows }: GuardFacts): void {
  const refuse = (fault: string) => new Error(`${name}: ${fault}`);
  if (follows !== undefined && follows !== credential) throw refuse(`expected ${FOLLOWERS[follows].before}`);
  const impossible = requiredScopes.findIndex(isImpossible);
  if (impossible !== -1) {
    throw refuse(wrongField('guards.scopes', 'scopes that a key can have, like "read"', requiredScopes[impossible]));
  }
}
