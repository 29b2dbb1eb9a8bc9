// Tokens of workloads beside other doors. A platform’s are longer than any key, GitHub’s have some 2,000 characters: services
// that check keys from memory take what the server takes. And where a key is handed over, one may be pasted.

import { expect, test } from 'bun:test';
import { createVerifier } from '../../../src/doors/services/verifier.ts';
import { decided } from '../../support/checked-service.ts';
import { handOver, register } from '../../support/hand-over.ts';
import { serviceOf } from '../../support/service.ts';
import { startVerifier } from '../../support/verifier-process.ts';
import { startWorkload } from '../rules/workload.ts';

const ENV = { PUBLIC_URL: undefined };
const PADDED = [2000, 11_000];

test('a token as long as the server takes lets its workload into a service', async () => {
  await using workload = await startWorkload({ env: ENV });
  const { app } = workload;
  const verifier = createVerifier({ url: app.url, ...(await serviceOf(app)) });
  for (const chars of PADDED) {
    const token = await workload.token({ aud: app.url, padding: 'x'.repeat(chars) });
    expect(await workload.use(token)).toBe(200);
    expect(await decided(() => verifier.verify(token))).toMatchObject({ ok: true, keyId: workload.keyId });
  }
  await verifier.close();
});

test.skipIf(Bun.which('python3') === null)('the client in Python takes it, too', async () => {
  await using workload = await startWorkload({ env: ENV });
  const { app } = workload;
  const client = await startVerifier('python3', app.url, await serviceOf(app));
  for (const chars of PADDED) {
    const key = await workload.token({ aud: app.url, padding: 'x'.repeat(chars) });
    expect(await client.decided({ key })).toMatchObject({ ok: true, key_id: workload.keyId });
  }
  await client.kill();
});

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
