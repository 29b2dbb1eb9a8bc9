// A workload's token that somebody pasted where a key is handed over.

import { expect, test } from 'bun:test';
import { handOver, register } from '../../support/hand-over.ts';
import { startWorkload } from '../rules/workload.ts';

test('a token that a rule lets in is refused as an unknown key: nothing is handed out for it', async () => {
  await using workload = await startWorkload({ env: { OAUTH_REDIRECTS: 'loopback', PUBLIC_URL: undefined } });
  const { app } = workload;
  const token = await workload.token({ aud: app.url });
  expect(await workload.use(token)).toBe(200);
  const refused = await handOver((await register(app)).page(), { key: token });
  const html = await refused.text();
  expect([refused.status, refused.headers.get('location')]).toEqual([401, null]);
  expect(html).toContain('Invalid or expired API key: this is a token, not a key.');
  expect(html).not.toContain(token);
});
