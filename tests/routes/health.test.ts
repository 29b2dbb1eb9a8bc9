// GET /mcp/health.

import { expect, test } from 'bun:test';
import { answerOf, createTestApp } from '../support/test-app.ts';

test('while the store answers: 200 and ok', async () => {
  await using app = await createTestApp();
  app.clock.advance(61_500);
  const { status, headers, body } = await answerOf(await fetch(`${app.url}/mcp/health`));
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('application/json');
  expect(headers.get('cache-control')).toBe('no-store');
  expect(body).toMatchObject({
    status: 'ok',
    name: 'mcp-key-server',
    version: '1.0.0',
    uptimeSeconds: 61,
    store: { mode: 'embedded', ok: true, lagMs: expect.any(Number) },
    sessions: 0,
  });
  expect(body.protocolVersions).toBeArray();
});

test('while it does not: 503 and unavailable, and GET / still answers', async () => {
  await using app = await createTestApp();
  await app.service.close();
  const { status, headers, body } = await answerOf(await fetch(`${app.url}/mcp/health`));
  expect(status).toBe(503);
  expect(headers.get('retry-after')).toBe('1');
  expect(body).toMatchObject({ status: 'unavailable', store: { ok: false } });
  expect((await fetch(app.url)).status).toBe(200);
});
