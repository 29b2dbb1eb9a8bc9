// How a tool that asks is tested: over MCP, with answers.

import { expect, test } from 'bun:test';
import { createTestApp } from 'mcp-key-server/testing';
import closeOrder from './close-order.ts';

test('an order is closed once its owner has said why', async () => {
  await using app = await createTestApp({ tools: [closeOrder] });
  const { key } = await app.createKey('alice');
  const mcp = app.mcp({ key });
  const { structuredContent, asked } = await mcp.call(
    'close_order',
    { orderId: '7' },
    { answers: { closing: { reason: 'sent' } } },
  );
  expect([structuredContent, asked[0]?.message]).toEqual([{ closed: true }, 'Close the order 7?']);
  expect((await mcp.call('close_order', { orderId: '7' })).structuredContent).toEqual({ closed: false });
});
