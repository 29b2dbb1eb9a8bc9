// Whether a value conforms to a schema unchanged, without valibot's parse, which would make a call of get_data a tenth
// slower. Relies on what valibot's schema objects hold (1.x): `kind`, `type`, `pipe` with the schema itself first,
// `entries`, `item`, `wrapped`, `options`, `literal`, `default`, `fallback`, and the `~run` of a validation. All else
// is left to the parse; tests compare the two.

import type { GenericSchema } from 'valibot';
import { isObject } from '../lib/text.ts';

/** False decides nothing: the parse does, and says what is wrong. */
export type Conforms = (value: unknown) => boolean;

interface Part {
  readonly kind: string;
  readonly type: string;
  readonly pipe?: readonly Part[];
  readonly item?: Part;
  readonly wrapped?: Part;
  readonly entries?: Readonly<Record<string, Part>>;
  readonly options?: readonly unknown[];
  readonly literal?: unknown;
  readonly default?: unknown;
  readonly fallback?: unknown;
  readonly '~run': (
    dataset: { typed: true; value: unknown },
    config: object,
  ) => { readonly issues?: readonly unknown[] };
}

/** Null for a schema with a part that may change the value, or that is unknown here. */
export const conformsTo = (schema: GenericSchema): Conforms | null => compile(schema as unknown as Part);

function compile(part: Part): Conforms | null {
  const checks = part.pipe?.map(compileStep) ?? [compileType(part)]; // a pipe begins with the schema it extends
  if (!checks.every((check) => check !== null)) return null;
  const needed = checks.filter((check) => check !== passes);
  const [only] = needed;
  if (needed.length === 1 && only !== undefined) return only;
  return (value) => needed.every((check) => check(value));
}

const passes: Conforms = () => true;

function compileStep(step: Part): Conforms | null {
  if (step.kind === 'metadata') return passes;
  if (step.kind === 'validation') return (value) => step['~run']({ typed: true, value }, {}).issues === undefined;
  return step.kind === 'schema' ? compile(step) : null; // a transformation changes the value
}

function compileType(part: Part): Conforms | null {
  if (part.fallback !== undefined) return null; // a fallback also replaces a missing field
  switch (part.type) {
    case 'string':
      return (value) => typeof value === 'string';
    case 'number':
      return (value) => typeof value === 'number' && !Number.isNaN(value);
    case 'boolean':
      return (value) => typeof value === 'boolean';
    case 'literal':
      return (value) => value === part.literal;
    case 'picklist':
      return (value) => part.options?.includes(value) ?? false;
    case 'nullable':
      return orElse(part, null);
    case 'optional':
      return orElse(part, undefined);
    case 'array':
      return arrayOf(part.item);
    case 'strict_object':
      return objectOf(part.entries);
    default:
      return null;
  }
}

function orElse({ wrapped, default: fallback }: Part, nothing: null | undefined): Conforms | null {
  const inner = wrapped === undefined || fallback !== undefined ? null : compile(wrapped);
  return inner && ((value) => value === nothing || inner(value));
}

function arrayOf(item: Part | undefined): Conforms | null {
  const inner = item === undefined ? null : compile(item);
  if (inner === null) return null;
  return (value) => {
    if (!Array.isArray(value)) return false;
    for (const one of value) if (!inner(one)) return false;
    return true;
  };
}

function objectOf(entries: Readonly<Record<string, Part>> = {}): Conforms | null {
  const fields: { readonly name: string; readonly inner: Conforms; readonly optional: boolean }[] = [];
  for (const [name, entry] of Object.entries(entries)) {
    const inner = compile(entry);
    if (inner === null) return null;
    fields.push({ name, inner, optional: entry.type === 'optional' });
  }
  return (value) => {
    if (!isObject(value)) return false;
    let unknown = Object.keys(value).length;
    for (const { name, inner, optional } of fields) {
      const field = value[name];
      if (field === undefined && optional) continue; // if present but undefined, it stays counted as unknown
      if (!inner(field)) return false;
      unknown -= 1;
    }
    return unknown === 0;
  };
}
