// A tool that asks the person.

import { defineTool, form, ok, type ToolDeps, v } from 'mcp-key-server';

const confirmation = form(v.strictObject({ reason: v.pipe(v.string(), v.maxLength(200), v.description('Why?')) }));

export default ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'close_order',
    title: 'Close an order',
    description: 'Closes an order, after its owner has said why.',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({ orderId: v.string() }),
    output: v.strictObject({ closed: v.boolean() }),
    run({ orderId }, { ask }) {
      const asked = ask({ closing: confirmation(`Close the order ${orderId}?`) });
      if (!asked.ok) return asked;
      return ok({ closed: asked.value.closing.action === 'accept' });
    },
  });
