// Derives from a file's syntax tree what a careless change could do to its decisions, so that no rename outdates it.

import { parse } from '@babel/parser';

/** One change: the text from `start` to `end` is replaced by `text`. */
export interface Mutant {
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** Says what was there and what is there now, in one line. */
  readonly what: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly loc: { readonly start: { readonly line: number } };
  readonly [field: string]: unknown;
}

const OTHER_OPERATOR: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '&&': '||',
  '||': '&&',
};
const OTHER_METHOD = new Map(Object.entries({ every: 'some', some: 'every', min: 'max', max: 'min' }));
/** Methods without which a call may go unnoticed: what they leave out, bound or order. */
const OMITTED_METHOD = /^(filter|slice|sort)$/;
const OMITTED_FUNCTION = /^(Math\.(min|max)|Object\.freeze)$/;
const JUMPS = /^(Return|Throw|Continue|Break)Statement$/;
/** What only tells people, or is only measured, is no decision. */
const TELLS = /^(await )?(\w+\.)*(log|outage|metrics|observe\w*|io)\b[.?(]/;
const SQL = /\b(SELECT|UPDATE|INSERT|DELETE|WHERE)\b/;
const SQL_CONDITION = /\bAND\b.*?(?=\bAND\b|\n|$)/g;
const SHOWN_CHARS_MAX = 70;

/** Returns the mutants of a TypeScript source, in the order of its lines. */
export function mutantsOf(source: string): Mutant[] {
  const mutants: Mutant[] = [];
  const add = (line: number, start: number, end: number, text: string): void => {
    mutants.push({ line, start, end, text, what: `${shown(source.slice(start, end))} → ${shown(text) || 'nothing'}` });
  };
  const { program } = parse(source, { sourceType: 'module', plugins: ['typescript'] });
  visit(program as unknown as Node, (node) => {
    for (const [start, end, text] of changesOf(node, source)) add(node.loc.start.line, start, end, text);
  });
  return mutants;
}

type Change = readonly [start: number, end: number, text: string];

function changesOf(node: Node, source: string): Change[] {
  const textOf = ({ start, end }: Node) => source.slice(start, end);
  const insteadOfAll = (...parts: Node[]): Change[] => parts.map((part) => [node.start, node.end, `(${textOf(part)})`]);
  switch (node.type) {
    case 'IfStatement': {
      const { start, end } = node.test as Node;
      const negated: Change = [start, end, `!(${source.slice(start, end)})`];
      return isGuard(node) ? [negated, [node.start, node.end, '']] : [negated];
    }
    case 'ConditionalExpression': {
      const { start, end } = node.test as Node;
      const negated: Change = [start, end, `!(${source.slice(start, end)})`];
      return [negated, ...insteadOfAll(node.consequent as Node, node.alternate as Node)];
    }
    case 'BinaryExpression':
    case 'LogicalExpression': {
      const other = OTHER_OPERATOR[String(node.operator)];
      const [left, right] = [node.left as Node, node.right as Node];
      const either = node.type === 'LogicalExpression' ? insteadOfAll(left, right) : [];
      if (other === undefined) return either;
      return [[node.start, node.end, `(${textOf(left)}) ${other} (${textOf(right)})`], ...either];
    }
    case 'CallExpression': {
      const callee = node.callee as Node;
      if (OMITTED_FUNCTION.test(textOf(callee))) return insteadOfAll(...(node.arguments as Node[]).filter(isWhole));
      const isOmitted = callee.type === 'MemberExpression' && OMITTED_METHOD.test(textOf(callee.property as Node));
      return isOmitted ? insteadOfAll(callee.object as Node) : [];
    }
    case 'ObjectExpression':
      return (node.properties as Node[]).flatMap((one) =>
        isWhole(one) ? [] : [[one.start, one.end, '...{}'] as const],
      );
    case 'TryStatement': {
      const last = (node.finalizer ?? null) as Node | null;
      return last === null ? [] : [[last.start, last.end, '{}']];
    }
    case 'BooleanLiteral':
      return [[node.start, node.end, String(!node.value)]];
    case 'MemberExpression': {
      const property = node.property as Node;
      const other = OTHER_METHOD.get(String(property.name));
      return other === undefined || node.computed ? [] : [[property.start, property.end, other]];
    }
    case 'ExpressionStatement':
      return TELLS.test(textOf(node)) ? [] : [[node.start, node.end, ';']];
    case 'StringLiteral':
    case 'TemplateElement':
      return SQL.test(textOf(node)) ? conditionsOf(node, textOf(node)) : [];
    default:
      return [];
  }
}

/** Returns whether it is `if (…) return …`, without an `else`. */
function isGuard({ consequent, alternate }: Node): boolean {
  const { type, body } = consequent as Node;
  const only = type === 'BlockStatement' ? (body as Node[]) : [consequent as Node];
  return (alternate ?? null) === null && only.length === 1 && JUMPS.test(only[0]?.type ?? '');
}

const isWhole = ({ type }: Node): boolean => type !== 'SpreadElement';

/** Returns changes that each leave out one condition of a statement of SQL. */
function conditionsOf({ start }: Node, sql: string): Change[] {
  return [...sql.matchAll(SQL_CONDITION)]
    .filter(([condition]) => condition.split('(').length === condition.split(')').length && !condition.includes('`'))
    .map(({ 0: condition, index }): Change => [start + index, start + index + condition.length, '']);
}

function visit(node: Node, each: (node: Node) => void): void {
  each(node);
  if (node.type.startsWith('TS') && node.type.endsWith('Declaration')) return; // types decide nothing
  for (const child of Object.values(node).flat()) {
    if (typeof child === 'object' && child !== null && 'type' in child && 'loc' in child) visit(child as Node, each);
  }
}

const shown = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, SHOWN_CHARS_MAX);
