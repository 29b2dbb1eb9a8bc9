// Bodies: JSON gone wrong: values of wrong types and sizes, trees changed in a few places, and texts that are no JSON any more.
// A text here is its bytes, one character each (latin1), so that it can hold what is not UTF-8.

import fc from 'fast-check';

export const JSON_TYPE = ['Content-Type', 'application/json'] as const;
export const FORM_TYPE = ['Content-Type', 'application/x-www-form-urlencoded'] as const;

export const bytesOf = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

const ODD_TEXTS = [
  '',
  ' ',
  '\0',
  'bob\0x',
  '\ud800',
  'x\udc00',
  '\ufeff',
  '\u202e',
  'e\u0301',
  '😀'.repeat(201),
  'a'.repeat(201),
  'a'.repeat(70_000),
  '__proto__',
  'constructor',
  '../../etc/passwd',
  "' OR 1=1 --",
  '<script>alert(1)</script>',
  '{{7*7}}',
  'line\r\nX-Injected: 1',
  'data: forged\n\nevent: x',
];
const ODD_NUMBERS = [0, -0, -1, 0.1, 5e-324, 1e308, 2 ** 53, 2 ** 53 + 2, -(2 ** 63), 36_500.000001];

const nested = (depth: number, list: boolean): unknown => {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = list ? [value] : { a: value };
  return value;
};

/** A value in a place where another was expected. */
export const oddValue = (secrets: readonly string[]): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...ODD_TEXTS) },
    { weight: 3, arbitrary: fc.constantFrom(...secrets) },
    { weight: 2, arbitrary: fc.constantFrom(...ODD_NUMBERS) },
    { weight: 2, arbitrary: fc.constantFrom(null, true, false, [], {}, [null], [[]], { '': '' }) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 30 }) },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom(5, 50, 1000), fc.boolean()).map(([d, list]) => nested(d, list)) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  );

type Change =
  | { readonly kind: 'set' | 'add'; readonly at: number; readonly name: string; readonly value: unknown }
  | { readonly kind: 'drop' | 'double'; readonly at: number };

const change = (secrets: readonly string[]): fc.Arbitrary<Change> =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constantFrom('set' as const, 'add' as const),
        at: fc.nat(30),
        name: fc.constantFrom('x', '_meta', 'api_key', 'name', '', ...secrets.slice(0, 2)),
        value: oddValue(secrets),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('drop' as const, 'double' as const), at: fc.nat(30) }) },
  );

type Tree = Record<string, unknown>;
interface Place {
  readonly parent: Tree;
  readonly name: string;
}

const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null;

/** Every place in a tree, as the object or array that holds it and its name there. */
function placesOf(root: Tree): Place[] {
  const places: Place[] = [];
  const visit = (parent: Tree, depth: number): void => {
    for (const name of Object.keys(parent)) {
      places.push({ parent, name });
      const value = parent[name];
      if (depth < 10 && isTree(value)) visit(value, depth + 1);
    }
  };
  visit(root, 0);
  return places;
}

function apply(root: Tree, made: Change): void {
  const places = placesOf(root);
  const { parent, name } = places[made.at % Math.max(1, places.length)] ?? { parent: root, name: 'x' };
  switch (made.kind) {
    case 'set':
      parent[name] = made.value;
      return;
    case 'add': {
      const inside = parent[name];
      (isTree(inside) && !Array.isArray(inside) ? inside : parent)[made.name] = made.value;
      return;
    }
    case 'drop':
      delete parent[name];
      return;
    case 'double':
      parent[name] = [parent[name], structuredClone(parent[name])];
  }
}

/** `value` with up to three changes anywhere in it. */
export const mutated = (value: fc.Arbitrary<unknown>, secrets: readonly string[]): fc.Arbitrary<unknown> =>
  fc.tuple(value, fc.array(change(secrets), { minLength: 1, maxLength: 3 })).map(([original, changes]) => {
    const root = { root: structuredClone(original) };
    for (const made of changes) apply(root, structuredClone(made)); // constants are shared, and must stay as they are
    return root.root;
  });

const INSERTED = [
  '\0',
  '\xff',
  '\xc0\xaf',
  '\xed\xa0\x80',
  '\\ud800',
  '"',
  '{',
  ']',
  ',',
  '\n',
  '/*x*/',
  '\xef\xbb\xbf',
];

/** JSON text, and now and then a text that almost is. */
export const jsonText = (value: fc.Arbitrary<unknown>): fc.Arbitrary<string> =>
  fc
    .tuple(
      value.map((made) => bytesOf(JSON.stringify(made) ?? '')),
      fc.integer({ min: 0, max: 60 }),
      fc.nat(5000),
      fc.constantFrom(...INSERTED),
    )
    .map(([text, fault, at, inserted]) => {
      const place = at % (text.length + 1);
      switch (fault) {
        case 1:
          return text.slice(0, place);
        case 2:
        case 3:
          return text.slice(0, place) + inserted + text.slice(place);
        case 4:
          return text.replace(/(?<=:)-?\d+(\.\d+)?/, '1e999');
        case 5:
          return text.replace('{', '{"__proto__":{"api_key":"x","active":true},');
        case 6:
          return text.replace(/"(\w+)":/, '"$1":0,"$1":');
        case 7:
          return inserted + text;
        case 8:
          return text + inserted;
        case 9:
          return `${'['.repeat(at)}${text}${']'.repeat(at)}`;
        case 10:
          return `${' '.repeat(at * 10)}${text}`;
        case 11: // now and then more than any route takes
          return at < 4000 ? text : `${' '.repeat(2 ** 20)}${text}`;
        default:
          return text;
      }
    });
