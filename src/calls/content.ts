// The schemas of MCP's content blocks (2025-11-25, "ContentBlock"), for tools without an output schema and for prompts.
// Declared without the SDK; tests/mcp/wire-types.test.ts keeps them equal to the SDK's.

import * as v from 'valibot';
import { type Awaitable, chain } from '../ground/result.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import { outputValidatorOf } from './schema.ts';

const text = v.optional(v.string());
const meta = v.optional(v.custom<JsonObject>(isObject, 'Expected an object'));

/** Validates base64 as strictly as clients do, which refuse the whole result if it is wrong. */
const base64 = v.pipe(v.string(), v.check(isBase64, 'Expected base64'));

function isBase64(data: string): boolean {
  try {
    atob(data);
    return true;
  } catch {
    return false;
  }
}

/** Returns whether clients accept the time: ISO 8601 as RFC 3339 restricts it, on a day that exists. */
const isTime = (text: string): boolean =>
  /T.*(?:Z|\d[+-]..:..)$/.test(text) && new Date(text.slice(0, 10)).toJSON()?.startsWith(text.slice(0, 10));

const annotations = v.object({
  audience: v.optional(v.array(v.picklist(['user', 'assistant']))),
  priority: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  lastModified: v.optional(
    v.pipe(v.string(), v.isoTimestamp(), v.check(isTime, 'Expected a time like 2026-01-02T03:04:05+01:00')),
  ),
});

const block = { annotations: v.optional(annotations), _meta: meta };

const media = { ...block, data: base64, mimeType: v.string() };

const icon = v.object({
  src: v.string(),
  mimeType: text,
  sizes: v.optional(v.array(v.string())),
  theme: v.optional(v.picklist(['light', 'dark'])),
});

const contents = { uri: v.string(), mimeType: text, _meta: meta };

export const contentBlock = v.variant('type', [
  v.object({ type: v.literal('text'), ...block, text: v.string() }),
  v.object({ type: v.literal('image'), ...media }),
  v.object({ type: v.literal('audio'), ...media }),
  v.object({
    type: v.literal('resource_link'),
    ...block,
    uri: v.string(),
    name: v.string(),
    title: text,
    description: text,
    mimeType: text,
    size: v.optional(v.number()),
    icons: v.optional(v.array(icon)),
  }),
  v.object({
    type: v.literal('resource'),
    ...block,
    resource: v.union(
      [v.object({ ...contents, text: v.string() }), v.object({ ...contents, blob: base64 })],
      'Expected a uri, and a text or a blob in base64',
    ),
  }),
]);

/** `isError` marks a failure of the tool itself. */
export const toolContent = v.object({ content: v.array(contentBlock), isError: v.optional(v.boolean()) });

export type ContentBlock = v.InferOutput<typeof contentBlock>;
export type ToolContent = v.InferOutput<typeof toolContent>;

// Defines the resources that MCP clients can list and read. They are public, and fixed when the server starts.

/** The media type of a widget (MCP Apps, 2026-01-26). */
export const WIDGET_TYPE = 'text/html;profile=mcp-app';

const resourceContent = v.union(
  [v.object({ text: v.string() }), v.object({ blob: base64 })],
  'Expected a text, or a blob in base64',
);

/** The content of a resource, whose `blob` is base64. */
export type ResourceContent = Readonly<v.InferOutput<typeof resourceContent>>;

export interface Resource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
  /** `_meta` of the listed item and of the content item. */
  readonly meta?: JsonObject;
  /** Returns the content, or resolves with it. What it gave first is kept. */
  readonly read: () => Awaitable<ResourceContent>;
}

/** Reads the resource. Throws an Error, or rejects with one, that names it if clients couldn't read the content. */
export const contentOf = ({ uri, read }: Resource): Awaitable<ResourceContent> =>
  chain(read(), outputValidatorOf(uri, resourceContent, 'it reads what is no resource of MCP'));
