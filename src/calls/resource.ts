// Resources that MCP clients can list and read. Public: the same for everyone, decided when the server starts.

import type { JsonObject } from '../ground/text.ts';

/** `blob` is base64. */
export type ResourceContent = { readonly text: string } | { readonly blob: string };

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
