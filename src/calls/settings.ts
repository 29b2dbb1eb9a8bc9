// Reads the settings of tools: environment variables `TOOL_…`, checked when the tool is created.

import type * as v from 'valibot';
import { REPLACEMENT } from '../ground/text.ts';
import { type ObjectSchema, parserOf, type Schema } from './schema.ts';

/** The settings by name. An empty value counts as unset. */
export type ToolEnv = Readonly<Record<`TOOL_${string}`, string | undefined>>;

/**
 * A schema whose names all begin with `TOOL_`, like `v.object({ TOOL_SHOP_URL: v.pipe(v.string(), v.url('Expected a
 * URL')) })`.
 */
export type SettingsSchema = ObjectSchema & { readonly entries: Readonly<Record<string, Schema>> };

/** Returns a tool's settings. Throws an Error that names missing and wrong variables, but never shows values. */
export type Settings = <S extends SettingsSchema>(schema: S) => v.InferOutput<S>;

const NAME = /^TOOL_[A-Z0-9_]+$/;
const isName = (name: string): name is `TOOL_${string}` => NAME.test(name);

/** Creates the function that gives tools their settings. It adds the names that they declare to `declared`. */
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

/** Parses the values. Hides what a function of the schema throws, which may quote a value, as JSON.parse does. */
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
