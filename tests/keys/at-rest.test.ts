// What the database keeps: the hash of a key, and not the key.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTestApp } from '../support/test-app.ts';

test('the database holds the SHA-256 of a key, the key itself nowhere', async () => {
  const app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  await app.close();
  const files = readdirSync(app.folder).map((name) => readFileSync(join(app.folder, name), 'latin1'));
  const hash = Bun.SHA256.hash(key, 'hex');
  expect(files.some((content) => content.includes(hash))).toBe(true);
  for (const content of files) {
    expect(content).not.toContain(key);
    expect(content).not.toContain(key.slice('sk_test_'.length));
  }
});
