// Checks what tool files provide, by tables of rules. JavaScript files run without the compiler, and a mistake should
// fail the start with one helpful line, not the first call.

import { isProblemCode, type ProblemCode } from '../ground/problem.ts';
import { COST_MAX } from '../ground/rate-limit.ts';
import { parseDuration } from '../ground/runtime.ts';
import { hasLength, isObject, isScope, type JsonObject } from '../ground/text.ts';

interface Rule {
  /** What the message says after `expected`. */
  readonly expected: string;
  /** Returns whether the value fits; `whole` is the object that contains it. */
  readonly fits: (value: unknown, whole: JsonObject) => boolean;
}

/** The rules of each field. */
type Fields = Readonly<Record<string, Rule | readonly Rule[]>>;

/** The same as a list, which is faster: every refusal is checked. */
type Shape = readonly (Rule & { readonly field: string })[];

const shapeOf = (fields: Fields): Shape =>
  Object.entries(fields).flatMap(([field, rules]) => [rules].flat().map((rule) => ({ field, ...rule })));

/** Returns the first fault of fields with rules, such as `title: expected text, got undefined`, or null. */
function faultIn(shape: Shape, whole: JsonObject): string | null {
  for (const { field, expected, fits } of shape) {
    const value = whole[field];
    if (!fits(value, whole)) return `${field}: expected ${expected}, got ${shown(value)}`;
  }
  return null;
}

/**
 * Returns the first fault of all fields, or null. Unknown fields are faults, because a misspelt one has no effect;
 * `more` lists allowed ones.
 */
export function faultInAll(shape: Shape, whole: JsonObject, more: readonly string[] = []): string | null {
  const known = [...new Set(shape.map(({ field }) => field))];
  const unknown = Object.keys(whole).find((field) => ![...known, ...more].includes(field));
  return unknown === undefined
    ? faultIn(shape, whole)
    : `${unknown}: unknown field; the fields are ${known.join(', ')}`;
}

/** Throws an Error, whose message begins with `name`, if the object has a fault. */
export const assertShape = (name: string, shape: Shape, whole: JsonObject): void =>
  assertNone(name, faultIn(shape, whole));

/** Throws an Error also for unknown fields, except those in `more`. */
export const assertAll = (name: string, shape: Shape, whole: JsonObject, more?: readonly string[]): void =>
  assertNone(name, faultInAll(shape, whole, more));

function assertNone(name: string, fault: string | null): void {
  if (fault !== null) throw new Error(`${name}: ${fault}`);
}

const SHOWN_CHARS_MAX = 200;

function shown(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint' || value === null) return String(value);
  if (typeof value !== 'string') return typeof value;
  return value.length > SHOWN_CHARS_MAX ? `a text of ${value.length} characters` : JSON.stringify(value);
}

const rule = (expected: string, fits: Rule['fits']): Rule => ({ expected, fits });

const optional = ({ expected, fits }: Rule): Rule =>
  rule(expected, (value, whole) => value === undefined || fits(value, whole));

const listOf = (fits: (value: unknown) => boolean, expected: string): Rule =>
  rule(expected, (value) => Array.isArray(value) && value.every(fits));

const isText = (value: unknown): value is string => typeof value === 'string';
const isNumber = (value: unknown): boolean => Number.isFinite(value);
const isWhole = (value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): value is number =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;

const TEXT = rule('text', isText);
const OBJECT = rule('an object', isObject);
const FUNCTION = rule('a function', (value) => typeof value === 'function');

const SCHEMA = rule(
  'a schema of valibot 1, like v.strictObject({})',
  (value) => isObject(value) && value.kind === 'schema' && typeof value['~run'] === 'function',
);

// Tools and prompts

/** What MCP allows (2025-11-25, server/tools, "Tool Names"), except `.` and `..`, which a URL's path would resolve. */
const NAME_PATTERN = /^(?!\.\.?$)[\w.-]{1,128}$/;
const NAME = rule('1-128 letters, digits, "_", "-" or "."', (value) => isText(value) && NAME_PATTERN.test(value));

/** The longest delay of a timer, 24 days. With a longer one it would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
const TIMEOUT_MS = rule(
  `above 0 and at most ${TIMEOUT_MS_MAX}`,
  (value) => typeof value === 'number' && value > 0 && value <= TIMEOUT_MS_MAX,
);

/** Clients refuse the whole list of tools if one has other hints. */
const HINTS = rule(
  'hints that are true or false, like { readOnlyHint: true }',
  (value) =>
    isObject(value) &&
    Object.entries(value).every(([name, hint]) => typeof hint === (name === 'title' ? 'string' : 'boolean')),
);

const CAPABILITIES = rule(
  'capabilities, like { elicitation: {} }',
  (value) => isObject(value) && Object.values(value).every(isObject),
);

const NAMED = shapeOf({ name: NAME });
const FACTS: Fields = { name: NAME, title: TEXT, description: TEXT, timeoutMs: optional(TIMEOUT_MS) };

const DEFINITIONS = {
  defineTool: shapeOf({
    ...FACTS,
    input: SCHEMA,
    output: optional(SCHEMA),
    annotations: optional(HINTS),
    requiresClient: optional(CAPABILITIES),
    widget: optional(TEXT),
    sample: optional(OBJECT),
    cost: optional(rule(`a whole number from 1 to ${COST_MAX}`, (value) => isWhole(value, 1, COST_MAX))),
    run: FUNCTION,
  }),
  definePrompt: shapeOf({ ...FACTS, arguments: SCHEMA, run: FUNCTION, complete: optional(OBJECT) }),
};

/** The fields of both: tools and prompts may share an object of facts. */
const DEFINED = Object.values(DEFINITIONS).flatMap((shape) => shape.map(({ field }) => field));

/** Throws an Error that names the wrong field, or says that the guard argument is missing. */
export function assertDefinition(define: keyof typeof DEFINITIONS, guard: unknown, definition: unknown): void {
  if (!isGuard(guard) || !isObject(definition)) {
    const examples = 'guards.apiKey, or () => ok({}) to let everybody call it';
    throw new Error(`${define}: expected a guard, and then the definition: ${define}(${examples}, { … })`);
  }
  assertShape(define, NAMED, definition);
  assertAll(String(definition.name), DEFINITIONS[define], definition, DEFINED);
  const broken = OF_THE_WHOLE.find(({ fits }) => !fits(guard));
  if (broken !== undefined) throw new Error(`${definition.name}: ${broken.expected(guard)}`);
}

/** One of the `resources` that an operator's file exports. */
export const RESOURCE = shapeOf({
  uri: TEXT,
  name: TEXT,
  title: TEXT,
  description: TEXT,
  mimeType: TEXT,
  meta: optional(OBJECT), // else clients refuse the whole list
  read: FUNCTION,
});

// Guards

/** Marks functions that create guards, like guards.scopes: they must be called first. */
export const CREATES_GUARDS = { createsGuards: true };

/** The properties of guards (guard.ts). */
interface GuardFacts {
  readonly credential?: string | undefined;
  readonly requiredScopes?: readonly unknown[] | undefined;
  readonly forAdmins?: boolean | undefined;
}

const isGuard = (value: unknown): value is GuardFacts => typeof value === 'function' && !('createsGuards' in value);

interface GuardRule<T> {
  readonly fits: (guards: T) => boolean;
  readonly expected: (guards: T) => string;
}

type GuardList = readonly GuardFacts[];

const asksForCredential = ({ credential }: GuardFacts): boolean => credential !== undefined;

const beforeCredential = (guards: GuardList): GuardList =>
  guards.slice(0, Math.max(guards.findIndex(asksForCredential), 0));

const notAGuard = (guards: readonly unknown[]): number => guards.findIndex((guard) => !isGuard(guard));

/** The order matters: each rule relies on the earlier ones. */
const IN_SEQUENCE: readonly GuardRule<GuardList>[] = [
  {
    fits: (guards) => guards.length > 0,
    expected: () => 'expected guards, got none: everybody would pass',
  },
  {
    fits: (guards) => notAGuard(guards) === -1,
    expected(guards) {
      const index = notAGuard(guards);
      const got = typeof guards[index] === 'function' ? 'one that is to be called first' : typeof guards[index];
      return `expected a guard in place ${index + 1}, got ${got}`;
    },
  },
  {
    fits: (guards) => guards.filter(asksForCredential).length <= 1,
    expected: () => 'expected one guard that asks for a credential, got several',
  },
  {
    fits: (guards) => beforeCredential(guards).every(({ requiredScopes = [] }) => requiredScopes.length === 0),
    expected: () => 'expected the guard of scopes after that of the API key',
  },
  {
    fits: (guards) => !beforeCredential(guards).some(({ forAdmins }) => forAdmins),
    expected: () => 'expected the guard of admins after that of the user token',
  },
];

/** Throws an Error for a sequence of guards that the compiler would refuse. */
export function assertSequence(guards: GuardList): void {
  const broken = IN_SEQUENCE.find(({ fits }) => !fits(guards));
  if (broken !== undefined) throw new Error(`sequence: ${broken.expected(guards)}`);
}

const isImpossible = (scope: unknown): boolean => !isText(scope) || !isScope(scope);

/** Rules for all guards of a tool or prompt together. */
const OF_THE_WHOLE: readonly GuardRule<GuardFacts>[] = [
  {
    fits: ({ requiredScopes = [], credential }) => requiredScopes.length === 0 || credential === 'api_key',
    expected: () => 'expected guards.apiKey before guards.scopes: only keys have scopes',
  },
  {
    fits: ({ requiredScopes = [] }) => !requiredScopes.some(isImpossible),
    expected: ({ requiredScopes = [] }) =>
      `guards.scopes: expected scopes that a key can have, like "read", got ${shown(requiredScopes.find(isImpossible))}`,
  },
  {
    fits: ({ forAdmins, credential }) => !forAdmins || credential === 'user_jwt',
    expected: () => 'expected guards.userJwt before guards.admin: only people are admins',
  },
];

/** The options of guards.rateLimit. */
export const RATE_LIMIT = shapeOf({
  requests: rule('a whole number of requests, 1 or more', (value) => isWhole(value, 1)),
  window: rule('a window like 30s, 5m, 1h or 1d', (value) => isText(value) && parseDuration(value) !== null),
  key: rule('a function that names the bucket of a call', (value) => typeof value === 'function'),
});

// What tools and guards report

const CODE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const CODE_CHARS_MAX = 64;
const DETAIL_CHARS_MAX = 1000;
const ASKS_FOR_CREDENTIALS: readonly unknown[] = [401, 407];
/** The statuses with Retry-After (RFC 9110 §15.6.4, RFC 6585 §4). */
const RETRIED: readonly unknown[] = [429, 503];

const STATUS = rule(
  'a status from 400 to 599 except 401 and 407',
  (value) => isWhole(value, 400, 599) && !ASKS_FOR_CREDENTIALS.includes(value),
);
const OWN_CODE = [
  rule(
    `a code in snake_case of at most ${CODE_CHARS_MAX} characters`,
    (value) => isText(value) && value.length <= CODE_CHARS_MAX && CODE.test(value),
  ),
  rule("a code of the tool's own, not one of the server's", (value) => isText(value) && !isProblemCode(value)),
];
const DETAIL = rule(
  `a detail of 1 to ${DETAIL_CHARS_MAX} characters`,
  (value) => isText(value) && hasLength(value, 1, DETAIL_CHARS_MAX),
);
const RETRY_AFTER_S = [
  optional(rule('it only with the status 429 or 503', (_value, { status }) => RETRIED.includes(status))),
  optional(rule('a whole number of seconds', (value) => isWhole(value, 0))),
];

/** The argument of `failure`. */
export const FAILURE = shapeOf({ status: STATUS, code: OWN_CODE, detail: DETAIL, retryAfterS: RETRY_AFTER_S });

const isIssue = (value: unknown): boolean => isObject(value) && isText(value.path) && isText(value.message);
/** Returns whether a header can contain the value. */
const isAscii = (value: unknown): boolean => isText(value) && /^[\x20-\x7e]*$/.test(value);
const isLimitState = (value: unknown): boolean =>
  isObject(value) &&
  isText(value.name) &&
  isObject(value.limit) &&
  [value.limit.requests, value.limit.windowS, value.remaining, value.resetS].every(isNumber);

const ISSUES = listOf(isIssue, 'issues with path and message');
const LIMITED: Fields = {
  retryAfterS: rule('a whole number of seconds, or null', (value) => value === null || isWhole(value, 0)),
  limits: optional(listOf(isLimitState, 'states of limits')),
};

const ANY_PROBLEM = shapeOf({
  code: rule('the code of a problem', (value) => isText(value) && isProblemCode(value)),
  issues: optional(ISSUES),
  sent: optional(rule('api_key or user_token', (value) => value === 'api_key' || value === 'user_token')),
  help: optional(TEXT),
});

/** The further fields of problems, by code. */
const FIELDS_OF_PROBLEMS: { readonly [Code in ProblemCode]?: Fields } = {
  invalid_input: { issues: ISSUES, detail: optional(TEXT) },
  invalid_response: { issues: ISSUES },
  internal: { code: rule('a bug to be thrown: the log says what went wrong', () => false) },
  insufficient_scope: { required: listOf(isAscii, 'scopes') },
  scope_not_granted: { grantable: listOf(isText, 'scopes') },
  method_not_allowed: { allow: rule('methods', isAscii) },
  rotation_under_way: {
    untilMs: rule('a time in ms', (value) => isNumber(value) && !Number.isNaN(new Date(value as number).getTime())),
  },
  rate_limited: LIMITED,
  quota_exceeded: LIMITED,
  tool_failure: { status: STATUS, ownCode: OWN_CODE, detail: DETAIL, retryAfterS: RETRY_AFTER_S },
};

const PROBLEMS: ReadonlyMap<unknown, Shape> = new Map(
  Object.entries(FIELDS_OF_PROBLEMS).map(([code, fields]) => [code, shapeOf(fields)]),
);
const NO_MORE: Shape = [];

/** Returns the first fault of a problem that a tool or guard returned; null if it can be sent. */
export function faultOfProblem(value: unknown): string | null {
  if (!isObject(value)) return `expected a problem, got ${shown(value)}`;
  return faultIn(ANY_PROBLEM, value) ?? faultIn(PROBLEMS.get(value.code) ?? NO_MORE, value);
}
