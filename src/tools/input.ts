// The one field that no tool declares: `_meta` (REST: of the body, MCP: of the arguments) is taken off before validation.

export interface SplitInput {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly meta: unknown;
}

export function withoutMeta(input: Readonly<Record<string, unknown>>): SplitInput {
  if (input._meta === undefined) return { fields: input, meta: undefined };
  const { _meta: meta, ...fields } = input;
  return { fields, meta };
}
