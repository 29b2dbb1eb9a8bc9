// MCP's content blocks (schema 2025-11-25, "ContentBlock"), which tools without an output schema return. Declared here
// without the SDK; tests/mcp/wire-types.test.ts keeps them equal to the SDK's.

interface Block {
  /** `priority`: 0 to 1. */
  annotations?:
    | {
        audience?: ('user' | 'assistant')[] | undefined;
        priority?: number | undefined;
        lastModified?: string | undefined;
      }
    | undefined;
  _meta?: { [key: string]: unknown } | undefined;
}

export interface TextContent extends Block {
  type: 'text';
  text: string;
}

/** `data` is base64. */
export interface MediaContent<Type extends 'image' | 'audio'> extends Block {
  type: Type;
  data: string;
  mimeType: string;
}

interface Icon {
  src: string;
  mimeType?: string | undefined;
  sizes?: string[] | undefined;
  theme?: 'light' | 'dark' | undefined;
}

export interface ResourceLink extends Block {
  type: 'resource_link';
  uri: string;
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  mimeType?: string | undefined;
  size?: number | undefined;
  icons?: Icon[] | undefined;
}

interface Contents {
  uri: string;
  mimeType?: string | undefined;
  _meta?: { [key: string]: unknown } | undefined;
}

/** `blob` is base64. */
export interface EmbeddedResource extends Block {
  type: 'resource';
  resource: (Contents & { text: string }) | (Contents & { blob: string });
}

export type ContentBlock =
  | TextContent
  | MediaContent<'image'>
  | MediaContent<'audio'>
  | ResourceLink
  | EmbeddedResource;

/** `isError` marks a failure of the tool itself. */
export interface ToolContent {
  content: ContentBlock[];
  isError?: boolean | undefined;
}
