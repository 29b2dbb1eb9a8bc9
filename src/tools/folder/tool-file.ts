// Defines what tool files get and export, and the one-line errors about them: file, and what was expected.

import type * as v from 'valibot';
import type { Resource } from '../../calls/content.ts';
import { CUSTOM, faultIn, SETTINGS } from '../../calls/definition-checks.ts';
import type { Guards } from '../../calls/guards.ts';
import type { Prompt } from '../../calls/prompt.ts';
import { assertObject, assertParts, type ObjectSchema, parserOf, type Schema } from '../../calls/schema.ts';
import type { Tool } from '../../calls/tool.ts';
import { REPLACEMENT } from '../../ground/text.ts';
import type { KeyCeilings } from '../../keys/grants.ts';
import type { Keys } from '../../keys/index.ts';

/** What tool files get to create tools. */
export interface ToolDeps {
  readonly guards: Guards;
  readonly keys: Keys;
  /** Reads environment variables by a schema. Their names begin with `TOOL_`. */
  readonly settings: Settings;
  /** The most that any key may have, for schemas. */
  readonly ceilings: KeyCeilings;
  /** Where a new key is shown over MCP: in the result, or only in the tool's widget. */
  readonly keyReveal: 'result' | 'widget';
}

/** What a tool file exports by default. */
export type MakeTools = (deps: ToolDeps) => Tool | readonly Tool[];

/** What a tool file may export as `prompts`. */
export type MakePrompts = (deps: ToolDeps) => Prompt | readonly Prompt[];

/** The name of the server's own tools, prompts and resources in messages. */
export const SERVER_FILE = 'the server';

export interface ToolFile {
  /** The file's name in messages, such as `tools/list-orders.ts`. */
  readonly file: string;
  readonly make?: MakeTools | undefined;
  readonly makePrompts?: MakePrompts | undefined;
  /** Unchecked: tools/registry.ts checks it. */
  readonly resources?: unknown;
}

/** What a program adds if it starts the server itself. */
export interface StartOptions {
  /** The default exports of tool files. If left out, the folder ./tools is read; TOOLS_DIR always is. */
  readonly tools?: readonly MakeTools[];
  /** What tool files export as `prompts`. */
  readonly prompts?: readonly MakePrompts[];
  /** Pages and other resources, in addition to the widgets. */
  readonly resources?: readonly Resource[];
}

/** Returns the program's additions in the form of tool files. Throws an Error for an unknown one, and for lists of others. */
export function toolFilesOf(custom: StartOptions): readonly ToolFile[] {
  const fault = faultIn(CUSTOM, custom);
  if (fault !== null) throw new Error(fault);
  const { tools = [], prompts = [], resources } = custom;
  assertFunctions('tools', tools, '=> Tool or Tool[]');
  assertFunctions('prompts', prompts, '=> Prompt or Prompt[]');
  return [
    ...tools.map((make, index) => ({ file: `tools[${index}]`, make })),
    ...prompts.map((makePrompts, index) => ({ file: `prompts[${index}]`, makePrompts })),
    { file: 'resources', resources },
  ];
}

function assertFunctions(name: string, list: readonly unknown[], returns: string): void {
  const wrong = list.findIndex((make) => typeof make !== 'function');
  if (wrong === -1) return;
  throw faultOf(`${name}[${wrong}]`, `expected a function (deps: ToolDeps) ${returns}, got ${typeof list[wrong]}`);
}

/** Creates an Error for the operator that names the file. */
export const faultOf = (file: string, expected: string): Error =>
  new Error(file === SERVER_FILE ? expected : `${file}: ${expected}`);

/** What a function of a file has thrown. read-folder.ts puts it into words. */
export class ThrownBy extends Error {
  constructor(
    readonly file: string,
    readonly thrown: unknown,
  ) {
    super(file);
  }
}

/** Runs a function of a file. Throws what the server's own throws, and a ThrownBy for any other's. */
export function attempt<T>(file: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw file === SERVER_FILE ? error : new ThrownBy(file, error);
  }
}

// Reads the settings of tools: environment variables `TOOL_…`, checked when the tool is created.

/** The settings by name. An empty value counts as unset. */
type ToolEnv = Readonly<Record<`TOOL_${string}`, string | undefined>>;

/**
 * A schema whose names all begin with `TOOL_`, like `v.object({ TOOL_SHOP_URL: v.pipe(v.string(), v.url('Expected a
 * URL')) })`.
 */
export type SettingsSchema = ObjectSchema & { readonly entries: Readonly<Record<string, Schema>> };

/** Returns a tool's settings. Throws an Error that names missing and wrong variables, but never shows values. */
export type Settings = <S extends SettingsSchema>(schema: S) => v.InferOutput<S>;

/** A shorter value is no secret, and may be a word of the message. */
const HIDDEN_CHARS_MIN = 8;

const NAME = /^TOOL_[A-Z0-9_]+$/;
const isName = (name: string): name is `TOOL_${string}` => NAME.test(name);

/** Creates the function that gives tools their settings. It adds the names that they declare to `declared`. */
export const settingsIn =
  (env: ToolEnv, declared: Set<string>): Settings =>
  (schema) => {
    const fault = faultIn(SETTINGS, { settings: schema });
    if (fault !== null) throw new Error(fault);
    assertParts('settings', schema);
    assertObject('settings', schema);
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
    const secrets = Object.values(values).filter(({ length }) => length >= HIDDEN_CHARS_MIN);
    secrets.sort((a, b) => b.length - a.length); // one may begin with another
    const faults = parsed.error.issues.map(({ path, message }) => {
      const isMissing = Object.hasOwn(schema.entries, path) && !Object.hasOwn(values, path);
      const hidden = secrets.reduce((text, value) => text.replaceAll(value, '…'), message);
      const expected = `${hidden.charAt(0).toLowerCase()}${hidden.slice(1)}`;
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
