// A tool with settings, which fails in its own words: it asks a shop for its hours.

import { defineTool, err, failure, ok, type ToolDeps, v } from 'mcp-key-server';

const variables = v.object({
  TOOL_SHOP_URL: v.pipe(v.string(), v.url('Expected the URL of the shop')),
  TOOL_SHOP_TIMEOUT_MS: v.optional(v.pipe(v.string(), v.toNumber(), v.integer(), v.minValue(1)), '1000'),
});

export default ({ guards, settings }: ToolDeps) => {
  const { TOOL_SHOP_URL: url, TOOL_SHOP_TIMEOUT_MS: timeoutMs } = settings(variables);
  return defineTool(guards.apiKey, {
    name: 'shop_hours',
    title: 'Shop hours',
    description: 'Says when the shop is open.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    input: v.strictObject({}),
    output: v.strictObject({ hours: v.string() }),
    async run() {
      const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) }).catch(() => null);
      if (!response?.ok) return err(failure({ status: 502, code: 'shop_away', detail: 'The shop does not respond' }));
      return ok({ hours: await response.text() });
    },
  });
};
