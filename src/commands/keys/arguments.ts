// Parses the arguments of verbs: options, durations, times, and which keys a verb is about.

import { type ParseArgsConfig, parseArgs } from 'node:util';
import type { KeyFilter } from '../../keys/admin.ts';
import { parseDuration } from '../../lib/duration.ts';
import { isWithinEdits } from '../../lib/edit-distance.ts';
import { parseLimit, parseQuota, type Quota, type RateLimit } from '../../lib/rate-limit.ts';
import { reasonOf } from '../../lib/text.ts';
import type { InvalidInput } from '../../problem.ts';
import { CommandError, UsageError } from './verb.ts';

/** Options, and at most `positionalsMax` other arguments. */
export function argumentsOf<T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
  positionalsMax = 0,
) {
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true, tokens: true });
    const twice = twiceIn(parsed.tokens, options);
    if (twice !== undefined) throw new Error(`--${twice} is there twice`);
    if (parsed.positionals.length <= positionalsMax) return parsed;
  } catch (error) {
    throw new UsageError(saidOf(error, Object.keys(options)));
  }
  throw new UsageError('too many arguments');
}

/** What is wrong. Of the arguments only the name of an option is repeated: a value may be a key. */
function saidOf(error: unknown, options: readonly string[]): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  const option = /'(--?[\w-]+)/.exec(message)?.[1] ?? '';
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const near = nearest(option.replace(/^-+/, ''), options);
    return `there is no option ${option}${near === undefined ? '' : `; did you mean --${near}?`}`;
  }
  if (code !== 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return reasonOf(error);
  return /does not take/.test(message) ? `${option} takes no value` : `${option}: expected a value`;
}

/** The word that `word` is probably a slip of. */
export const nearest = (word: string, words: readonly string[]): string | undefined =>
  words.find((other) => isWithinEdits(word, other, word.length < SHORT_CHARS ? 1 : 2));

/** Two slips turn a shorter word into too many others. */
const SHORT_CHARS = 4;

/** A single-valued option that is given more than once; `node:util` would take the last value. */
function twiceIn(
  tokens: readonly { readonly kind: string; readonly name?: string }[],
  options: NonNullable<ParseArgsConfig['options']>,
): string | undefined {
  const names = tokens.flatMap(({ kind, name }) => (kind === 'option' && name !== undefined ? [name] : []));
  const isOne = (name: string) => options[name]?.type === 'string' && options[name]?.multiple !== true;
  return names.find((name, index) => names.indexOf(name) !== index && isOne(name));
}

const OPTIONS: Readonly<Record<string, string>> = { name: '--name', scopes: '--scope', expiresInDays: '--days' };

/** What is wrong with a key, by the options that gave it. */
export const unfit = ({ issues }: InvalidInput): CommandError => {
  const said = issues.map(({ path, message }) => `${OPTIONS[path.split('.', 1)[0] ?? ''] ?? path}: ${message}`);
  return new CommandError(said.join('\n'), 2);
};

export function oneOf([only]: readonly string[], what: string): string {
  if (!only) throw new UsageError(`expected one ${what}`);
  return only;
}

function durationOf(name: string, text: string): number {
  const ms = parseDuration(text);
  if (ms === null) throw new CommandError(`--${name}: expected a time like 12h or 90d`, 2);
  return ms;
}

export function limitOf(text: string): RateLimit {
  const limit = parseLimit(text);
  if (limit === null) throw new CommandError('--limit: expected calls in a window of at most 366 days, like 100/1m', 2);
  return limit;
}

export function quotaOf(text: string): Quota {
  const quota = parseQuota(text);
  if (quota === null) throw new CommandError('--quota: expected calls in a day or month, like 5000/day', 2);
  return quota;
}

/** ISO 8601; without an offset in the machine's zone, also for a date alone, which JavaScript reads as UTC. */
function timeOf(name: string, text: string): number {
  const [, date, time = 'T00:00'] = LOCAL_OR_NOT.exec(text) ?? [];
  const ms = date === undefined || !isDay(date) ? Number.NaN : new Date(date + time).getTime();
  if (Number.isNaN(ms)) throw new CommandError(`--${name}: expected a time like 2026-01-31 or 2026-01-31T09:30:00Z`, 2);
  return ms;
}

/** Whether the day exists: JavaScript takes February 30 for March 2. */
export function isDay(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

const LOCAL_OR_NOT = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

export const FILTER_OPTIONS = {
  user: { type: 'string' },
  scope: { type: 'string' },
  'created-after': { type: 'string' },
  'unused-for': { type: 'string' },
} as const;

/** One more for listing: nobody revokes keys because they expire soon. */
export const LIST_OPTIONS = { ...FILTER_OPTIONS, 'expires-within': { type: 'string' } } as const;

type FilterValues = { readonly [option in keyof typeof LIST_OPTIONS]?: string | undefined };

export function filterOf(values: FilterValues, nowMs: number): KeyFilter {
  const { user: owner, scope, 'created-after': after, 'unused-for': unused, 'expires-within': within } = values;
  return {
    owner,
    scope,
    createdFromMs: after === undefined ? undefined : timeOf('created-after', after),
    unusedSinceMs: unused === undefined ? undefined : nowMs - durationOf('unused-for', unused),
    expiresByMs: within === undefined ? undefined : nowMs + durationOf('expires-within', within),
  };
}
