// Declares options and arguments of commands, for the parser, the types and the usage, and parses them.

import { parseArgs } from 'node:util';
import { METADATA_WANTED, type Metadata, metadataFrom } from '../ground/metadata.ts';
import { parseLimit, parseQuota } from '../ground/rate-limit.ts';
import { parseDuration } from '../ground/runtime.ts';
import {
  A_KEY_NAME,
  A_SCOPE,
  isKeyName,
  isScope,
  isSubject,
  isWithinEdits,
  REPLACEMENT,
  SUBJECT_CHARS_MAX,
} from '../ground/text.ts';
import { isIdShaped } from '../keys/record.ts';
import { UsageError } from './io.ts';

export interface Kind<T> {
  /** The value's name in the usage. */
  readonly name: string;
  /** What an error message says was expected. */
  readonly expected: string;
  /** Returns the value, or null if the text isn't of this kind. */
  parse(text: string): T | null;
}

export const kind = <T>(name: string, expected: string, parse: Kind<T>['parse']): Kind<T> => ({
  name,
  expected,
  parse,
});

export interface Option<T> {
  /** The name of its value in the usage; null: a flag. */
  readonly value: string | null;
  readonly isNeeded?: true;
  /** How often it may be given; once by default. */
  readonly most?: number;
  /** Parses the given texts. `said` names the option in messages. Throws a UsageError. */
  read(texts: readonly string[], said: string): T;
}

export type Options = Readonly<Record<string, Option<unknown>>>;
export type ValuesOf<O extends Options> = { readonly [name in keyof O]: ReturnType<O[name]['read']> };

const readEach = <T>({ expected, parse }: Kind<T>, texts: readonly string[], said: string): T[] =>
  texts.map((text) => {
    const value = parse(text);
    if (value === null) throw new UsageError(`${said}expected ${expected}`);
    return value;
  });

export const flag: Option<boolean> = { value: null, read: (texts) => texts.length > 0 };

export const optional = <T>(of: Kind<T>): Option<T | undefined> => ({
  value: of.name,
  read: (texts, said) => readEach(of, texts, said)[0],
});

export const needed = <T>(of: Kind<T>): Option<T> => ({
  value: of.name,
  isNeeded: true,
  read(texts, said) {
    const [value] = readEach(of, texts, said);
    if (value === undefined) throw new UsageError(`${said}expected ${of.expected}`);
    return value;
  },
});

/** Creates an option that may be repeated. Its value is a list, by default empty. */
export const many = <T>(of: Kind<T>): Option<readonly T[]> => ({
  value: of.name,
  most: Number.POSITIVE_INFINITY,
  read: (texts, said) => readEach(of, texts, said),
});

const text = (name: string, expected: string, isOne: (given: string) => boolean): Kind<string> =>
  kind(name, expected, (given) => (isOne(given) ? given : null));
export const FILE = text('file', 'a file', (given) => given !== '');
export const NAME = text('NAME', A_KEY_NAME, isKeyName);
export const SCOPE = text('S', A_SCOPE, isScope);
export const OWNER = text('OWNER', `an owner of 1 to ${SUBJECT_CHARS_MAX} characters without controls`, isSubject);
export const ID = text('id', 'an id of 32 hex digits', isIdShaped);
export const LIMIT = kind('100/1m', 'calls in a window of at most 366 days, like 100/1m', parseLimit);
export const QUOTA = kind('5000/day', 'calls in a day or month, like 5000/day', parseQuota);
export const SPAN_MS = kind('90d', 'a time like 12h or 90d', parseDuration);
/** Accepts days and other numbers, which the schema of a key bounds. */
export const NUMBER = kind('N', 'a number', (given) => (/^-?\d+(\.\d+)?$/.test(given) ? Number(given) : null));

export const wholeNumber = (name: string, min: number, max: number): Kind<number> =>
  kind(name, `a whole number, ${min} to ${max}`, (given) => {
    const value = /^\d{1,16}$/.test(given) ? Number(given) : Number.NaN;
    return value >= min && value <= max ? value : null;
  });

/** Creates an option that also accepts a word, which means null. */
export const optionalOr = <T>({ name, expected, parse }: Kind<T>, word: string): Option<T | null | undefined> => ({
  value: `${name}|${word}`,
  read: (texts, said) =>
    texts[0] === word ? null : readEach({ name, expected: `${expected}, or ${word}`, parse }, texts, said)[0],
});

/** Parses data: `plan=pro` for each name, or `none`. Its value: undefined if nothing is given, null for `none`. */
export const META: Option<Metadata | null | undefined> = {
  value: 'NAME=VALUE',
  most: Number.POSITIVE_INFINITY,
  read(given, said) {
    if (given.length === 0) return undefined;
    if (given.length === 1 && given[0] === 'none') return null;
    const pairs = given.map((pair) => /^([^=]*)=(.*)$/s.exec(pair)?.slice(1));
    if (pairs.includes(undefined))
      throw new UsageError(`${said}expected names with values, like plan=pro, or none alone`);
    const named = new Map(pairs as [name: string, value: string][]);
    if (named.size < pairs.length) throw new UsageError(`${said}expected each name once`);
    const metadata = metadataFrom(Object.fromEntries(named));
    if (metadata === undefined) throw new UsageError(`${said}expected ${METADATA_WANTED}`);
    return metadata;
  },
};

const LOCAL_OR_NOT = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

/** Accepts times in ISO 8601. Without an offset, they are in the machine's zone; JavaScript reads a date alone as UTC. */
export const TIME_MS = kind('T', 'a time like 2026-01-31 or 2026-01-31T09:30:00Z', (given) => {
  const [, date, time = 'T00:00'] = LOCAL_OR_NOT.exec(given) ?? [];
  const ms = date === undefined || !isDay(date) ? Number.NaN : new Date(date + time).getTime();
  return Number.isNaN(ms) ? null : ms;
});

/** Returns whether the day exists, because JavaScript reads February 30 as March 2. */
export function isDay(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

export const FILTER = {
  user: optional(OWNER),
  scope: optional(SCOPE),
  'created-after': optional(TIME_MS),
  'unused-for': optional(SPAN_MS),
} as const;

/** Parses the arguments. All positional ones are of one kind. Throws a UsageError. */
export function parsed<O extends Options, A>(args: readonly string[], options: O, argument: Option<A>) {
  const { values, positionals } = split(args, options);
  const read = (name: string, { most = 1, read }: Option<unknown>) => {
    const given = values[name] ?? [];
    if (given.length > most) throw new UsageError(`--${name} is there twice`);
    return [name, read(given, `--${name}: `)];
  };
  if (positionals.length > (argument.most ?? 1)) throw new UsageError('too many arguments');
  return {
    options: Object.fromEntries(Object.entries(options).map(([name, option]) => read(name, option))) as ValuesOf<O>,
    argument: argument.read(positionals, ''),
  };
}

function split(args: readonly string[], options: Options) {
  if (args.some((arg) => arg.includes(REPLACEMENT))) throw new UsageError('expected arguments in UTF-8');
  const config = Object.entries(options).map(
    ([name, { value }]) => [name, { type: value === null ? 'boolean' : 'string', multiple: true }] as const,
  );
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: Object.fromEntries(config),
      allowPositionals: true,
    });
    return { values: values as Readonly<Record<string, readonly string[]>>, positionals };
  } catch (error) {
    throw new UsageError(saidOf(error, Object.keys(options)));
  }
}

/** Returns what is wrong. It repeats only option names of the arguments, because a value may be a key. */
function saidOf(error: unknown, options: readonly string[]): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  const option = /'(--?[\w-]+)/.exec(message)?.[1] ?? '';
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const near = nearest(option.replace(/^-+/, ''), options);
    return `there is no option ${option}${near === undefined ? '' : `; did you mean --${near}?`}`;
  }
  return /does not take/.test(message) ? `${option} takes no value` : `${option}: expected a value`;
}

/** Two edits turn a shorter word into too many others. */
const SHORT_CHARS = 4;

/** Returns the word that `word` probably misspells. */
export const nearest = (word: string, words: readonly string[]): string | undefined =>
  words.find((other) => isWithinEdits(word, other, word.length < SHORT_CHARS ? 1 : 2));
