// How a tool that asks is tested: over MCP, its answers sent along.

import { expect, test } from 'bun:test';
import { createTestApp } from 'mcp-key-server/testing';
import closeOrder from './close-order.ts';

const MCP = '2026-07-28';

test('an order is closed once its owner has said why', async () => {
  await using app = await createTestApp({ tools: [closeOrder] });
  const { key } = await app.createKey('alice');
  const call = async (inputResponses?: object) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': MCP,
      'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
    };
    const params = { name: 'close_order', arguments: { orderId: '7' }, inputResponses, _meta };
    const response = await fetch(`${app.url}/mcp`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'MCP-Protocol-Version': MCP,
        'Mcp-Method': 'tools/call',
        'Mcp-Name': 'close_order',
        'X-API-Key': key,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    });
    return (await response.json()).result;
  };
  expect((await call()).inputRequests.closing.params.message).toBe('Close the order 7?');
  const closing = { action: 'accept', content: { reason: 'sent' } };
  expect((await call({ closing })).structuredContent).toEqual({ closed: true });
});
