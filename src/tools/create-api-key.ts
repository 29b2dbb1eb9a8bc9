// The tool that creates a key and returns it, once.

import * as v from 'valibot';
import { parserOf } from '../calls/schema.ts';
import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { readLimit } from '../ground/rate-limit.ts';
import { ok } from '../ground/result.ts';
import type { KeyCeilings } from '../keys/grants.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { keyRequestFields, quotaFields, quotaInput, rateLimitFields, rateLimitInput } from './key-fields.ts';
import { deliveryOf, HOW_SHOWN, newKeyFields } from './new-key.ts';

const limitFields = {
  rateLimit: v.optional(
    rateLimitInput(
      "How many calls the key may make in a window, like 100 in `1h`; without it the server's limit counts. For a program that could run away.",
    ),
  ),
  quota: v.optional(quotaInput('How many calls the key may make in a day or month (UTC), beside its limit.')),
};

/** keys/grants.ts checks the value. */
const resource = v.optional(
  v.pipe(
    v.string(),
    v.description(
      'The URL of the one server that the key is good for: this one, or one that takes its keys. Without it the key is good for all of them.',
    ),
  ),
);

/** Returns the fields of a new key that a person decides, in this tool and on the page. */
const decidedFields = (ceilings: KeyCeilings) => ({ ...keyRequestFields(ceilings), ...limitFields });

type Decided = v.InferOutput<v.StrictObjectSchema<ReturnType<typeof decidedFields>, undefined>>;

const requestOf = ({ rateLimit, ...decided }: Decided) => ({
  ...decided,
  rateLimit: rateLimit && readLimit(rateLimit),
});

/** Creates the parser of a person's decision outside this tool. */
export function keyRequestReader(ceilings: KeyCeilings) {
  const parse = parserOf(v.strictObject(decidedFields(ceilings)));
  return (fields: unknown) => {
    const decided = parse(fields);
    return decided.ok ? ok(requestOf(decided.value)) : decided;
  };
}

export const createApiKey = ({ guards, keys, ceilings, keyReveal }: ToolDeps, hasPage: boolean) =>
  defineTool(guards.userJwt, {
    name: 'create_api_key',
    title: 'Create an API key',
    description: `Creates an API key for the signed-in user. ${HOW_SHOWN[keyReveal]} Prefer few scopes and an expiry.`,
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    widget: 'ui://widget/api-key-created.html',
    input: v.strictObject({ ...decidedFields(ceilings), resource }),
    output: v.strictObject({
      ...newKeyFields(keyReveal),
      rateLimit: v.optional(rateLimitFields),
      quota: v.optional(quotaFields),
    }),
    async run({ resource, ...decided }, call) {
      const delivery = deliveryOf(keyReveal, hasPage, call);
      if (!delivery.ok) return delivery;
      const created = await keys.create(actorOf(call), { ...requestOf(decided), resource });
      if (!created.ok) return created;
      const { rateLimit, quota } = decided;
      return ok({ ...delivery.value(created.value), ...(rateLimit && { rateLimit }), ...(quota && { quota }) });
    },
  });
