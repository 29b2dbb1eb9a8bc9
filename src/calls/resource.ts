// Defines the resources that MCP clients can list and read. They are public, and fixed when the server starts.

import * as v from 'valibot';
import { type Awaitable, chain } from '../ground/result.ts';
import type { JsonObject } from '../ground/text.ts';
import { base64 } from './content.ts';
import { outputValidatorOf } from './schema.ts';

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
