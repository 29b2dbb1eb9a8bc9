// A resource that MCP clients can list and read. Public: the same for everyone, decided when the server starts.

export interface Resource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
  /** The content: text, or base64 for binary ones. */
  readonly read: () => { readonly text: string } | { readonly blob: string };
  /** `_meta` of the listed item and of the content item. */
  readonly meta?: Readonly<Record<string, unknown>>;
}
