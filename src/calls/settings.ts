// Settings of tools: the environment variables that a tool reads, checked when the tool is made.

import type * as v from 'valibot';
import { REPLACEMENT } from '../ground/text.ts';
import { type ObjectSchema, parserOf, type Schema } from './schema.ts';

/** The settings by their names. An empty value counts as not set. */
export type ToolEnv = Readonly<Record<`TOOL_${string}`, string | undefined>>;

/**
 * A schema whose names all begin with `TOOL_`, like `v.object({ TOOL_SHOP_URL: v.pipe(v.string(), v.url('Expected a
 * URL')) })`.
 */
export type SettingsSchema = ObjectSchema & { readonly entries: Readonly<Record<string, Schema>> };

/** Throws an Error that says which variables are missing or wrong, and never shows their values. */
export type Settings = <S extends SettingsSchema>(schema: S) => v.InferOutput<S>;

const NAME = /^TOOL_[A-Z0-9_]+$/;
const isName = (name: string): name is `TOOL_${string}` => NAME.test(name);

/** Returns what gives tools their settings, and adds the names of all that they declare to `declared`. */
export const settingsIn =
  (env: ToolEnv, declared: Set<string>): Settings =>
  (schema) => {
    const values: Record<string, string> = {};
    for (const name of Object.keys(schema.entries)) {
      if (!isName(name)) throw new Error(`settings: expected names like TOOL_SHOP_URL, got ${JSON.stringify(name)}`);
      declared.add(name);
      const value = env[name];
      if (value?.includes(REPLACEMENT)) throw new Error(`${name}: expected text in UTF-8`);
      if (value) values[name] = value;
    }
    const parsed = parseReadable(schema, values);
    if (parsed.ok) return parsed.value;
    const faults = parsed.error.issues.map(({ path, message }) => {
      const isMissing = Object.hasOwn(schema.entries, path) && !Object.hasOwn(values, path);
      const expected = `${message.charAt(0).toLowerCase()}${message.slice(1)}`;
      return `${path || 'settings'}: ${isMissing ? 'expected a value, but it is not set' : expected}`;
    });
    throw new Error(faults.join('; '));
  };

/** Parses the values. What a function of the schema throws is not shown: it may quote one, as JSON.parse does. */
function parseReadable<S extends SettingsSchema>(schema: S, values: Readonly<Record<string, string>>) {
  try {
    return parserOf(schema)(values);
  } catch {
    const unreadable = Object.keys(schema.entries).filter((name) => isUnreadable(schema.entries[name], values[name]));
    throw new Error(`${unreadable.join(', ') || 'settings'}: expected another value`);
  }
}

function isUnreadable(schema: Schema | undefined, value: string | undefined): boolean {
  try {
    if (schema !== undefined) parserOf(schema)(value);
    return false;
  } catch {
    return true;
  }
}
