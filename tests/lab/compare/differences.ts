// Where two responses differ.

import type { NamedResponse } from './names.ts';

export interface Difference {
  /** `status`, `header <name>`, `order of headers`, a path into the JSON of the body, `body`. */
  readonly where: string;
  readonly before: string;
  readonly now: string;
}

const BODY_SHOWN = 300;
const SHOWN_BEFORE = 100;
const SHOWN_AFTER = 300;

/** What a runtime writes itself: to HEAD Bun writes no Date, and of a text in pieces it may write the length. */
const RUNTIME_HEADERS = ['connection', 'content-length', 'date', 'transfer-encoding'];

/** Between runtimes their own headers don't count, nor the order of all, and how their names are written. */
export function differencesOf(before: NamedResponse, now: NamedResponse, sameRuntime: boolean): Difference[] {
  const found: Difference[] = [];
  const add = (where: string, one: unknown, other: unknown) => {
    const [textBefore = '(none)', textNow = '(none)'] = [one, other].map((value) =>
      typeof value === 'string' ? value : JSON.stringify(value),
    );
    const [shownBefore, shownNow] = aroundFirst(textBefore, textNow);
    found.push({ where, before: shownBefore, now: shownNow });
  };
  if (before.statusLine !== now.statusLine) {
    const [one, other] = [before, now].map(({ statusLine, body }) => `${statusLine} ${body.slice(0, BODY_SHOWN)}`);
    add('status', one, other);
    return found; // the rest follows from it
  }
  const [headersBefore, headersNow] = [byName(before), byName(now)];
  for (const name of new Set([...headersBefore.keys(), ...headersNow.keys()])) {
    if (!sameRuntime && RUNTIME_HEADERS.includes(name)) continue;
    const [one, other] = [headersBefore.get(name), headersNow.get(name)];
    if (one !== other) add(`header ${name}`, one, other);
  }
  if (sameRuntime && found.every(({ where }) => !where.startsWith('header'))) {
    const [one, other] = [before, now].map(({ headers }) => headers.map(([name]) => name).join(' '));
    if (one !== other) add('order of headers', one, other);
  }
  if (before.body === now.body) return found;
  const [jsonBefore, jsonNow] = [jsonOf(before.body), jsonOf(now.body)];
  if (jsonBefore === undefined || jsonNow === undefined) add('body', before.body, now.body);
  else {
    const paths = found.length;
    compareJson('body', jsonBefore, jsonNow, add);
    if (found.length === paths) add('body, as JSON the same', before.body, now.body);
  }
  return found;
}

/** Where they begin to differ, and what is around that. */
function aroundFirst(before: string, now: string): readonly [string, string] {
  let at = 0;
  while (at < before.length && before[at] === now[at]) at += 1;
  const around = (text: string) => text.slice(Math.max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER);
  return [around(before), around(now)];
}

/** The values of each header, in their order. */
function byName({ headers }: NamedResponse): Map<string, string> {
  const values = new Map<string, string>();
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const earlier = values.get(key);
    values.set(key, earlier === undefined ? value : `${earlier} | ${value}`);
  }
  return values;
}

/** Of an event stream, its messages. */
function jsonOf(body: string): unknown {
  const data = body.split('\n').filter((line) => line.startsWith('data: '));
  const texts = data.length > 0 ? data.map((line) => line.slice('data: '.length)) : [body];
  try {
    const values = texts.map((text) => JSON.parse(text));
    return data.length > 0 ? values : values[0];
  } catch {
    return undefined;
  }
}

type Add = (where: string, before: unknown, now: unknown) => void;

/** Elements with names of their own are compared with those of that name, others with those in their place. */
function compareJson(path: string, before: unknown, now: unknown, add: Add): void {
  const [one, other] = [membersOf(before), membersOf(now)];
  if (one === null || other === null || Array.isArray(before) !== Array.isArray(now)) {
    if (JSON.stringify(before) !== JSON.stringify(now)) add(path, before, now);
    return;
  }
  for (const name of new Set([...one.keys(), ...other.keys()])) {
    compareJson(path + name.replace(/^\[\d+\]$/, '[]'), one.get(name), other.get(name), add);
  }
  if ([...one.keys()].join() !== [...other.keys()].join() && one.size === other.size)
    add(`${path}, order`, [...one.keys()].join(), [...other.keys()].join());
}

/** Null where there are none. The output of a tool stands once more in a result, as text. */
function membersOf(value: unknown): Map<string, unknown> | null {
  if (typeof value === 'string' && value.startsWith('{')) return membersOf(jsonOf(value) ?? null);
  if (typeof value !== 'object' || value === null) return null;
  if (!Array.isArray(value)) return new Map(Object.entries(value).map(([name, member]) => [`.${name}`, member]));
  const names = value.map((element) => element?.name);
  const areNames = names.every((name) => typeof name === 'string') && new Set(names).size === names.length;
  return new Map(value.map((element, index) => [`[${areNames ? names[index] : index}]`, element]));
}
