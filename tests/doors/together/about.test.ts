// What `GET /` says of doors.

import { expect, test } from 'bun:test';
import { createTestApp } from '../../support/test-app.ts';

test('what can be switched on or off is named only where it is', async () => {
  const named = async (env: Record<string, string>) => {
    await using app = await createTestApp({ env });
    const text = await (await fetch(app.url)).text();
    return ['/keys', '/authorize', '/metrics'].filter((path) => text.includes(`${app.url}${path} `));
  };
  expect(await named({})).toEqual(['/keys']);
  const all = { KEYS_PAGE: '0', OAUTH_REDIRECTS: 'loopback', METRICS_TOKEN: 'a-token-of-a-test' };
  expect(await named(all)).toEqual(['/authorize', '/metrics']);
});
