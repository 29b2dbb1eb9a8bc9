// Takes off `_meta`, the one field that no tool declares (REST: of the body, MCP: of the arguments), before validation.

import type { JsonObject } from '../json.ts';

export interface SplitInput {
  readonly fields: JsonObject;
  readonly meta: unknown;
}

export function withoutMeta(input: JsonObject): SplitInput {
  if (input._meta === undefined) return { fields: input, meta: undefined };
  const { _meta: meta, ...fields } = input;
  return { fields, meta };
}
