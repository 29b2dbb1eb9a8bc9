// Resources that MCP clients can list and read. Public: the same for everyone, decided when the server starts.

import type { JsonObject } from '../lib/text.ts';

/** The content: text, or base64 for binary ones. */
export type ResourceContent = { readonly text: string } | { readonly blob: string };

export interface ResourceFacts {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
  /** `_meta` of the listed item and of the content item. */
  readonly meta?: JsonObject;
}

export interface Resource extends ResourceFacts {
  readonly uri: string;
  readonly read: () => ResourceContent;
}

/** Resources that share a URI template (RFC 6570), made when asked for. */
export interface ResourceTemplate extends ResourceFacts {
  readonly uriTemplate: string;
  /** Undefined if there is none at this URI. */
  readonly read: (uri: string) => ResourceContent | undefined;
}
