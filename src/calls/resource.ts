// Resources that MCP clients can list and read. Public: the same for everyone, decided when the server starts.

import * as v from 'valibot';
import type { JsonObject } from '../ground/text.ts';
import { base64 } from './content.ts';
import { outputValidatorOf } from './schema.ts';

/** The media type of a widget (MCP Apps, 2026-01-26). */
export const WIDGET_TYPE = 'text/html;profile=mcp-app';

const resourceContent = v.union(
  [v.object({ text: v.string() }), v.object({ blob: base64 })],
  'Expected a text, or a blob in base64, and no promise',
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
  readonly read: () => ResourceContent;
}

/** Returns the resource's content. Throws an Error, which names the resource, for content that clients can't read. */
export const contentOf = ({ uri, read }: Resource): ResourceContent =>
  outputValidatorOf(uri, resourceContent, 'it reads what is no resource of MCP')(read());
