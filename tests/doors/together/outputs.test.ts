// What the server's own tools return fits the schema that they are listed with, as a client checks it: at run time only
// the output of tool files is checked.

import { expect, test } from 'bun:test';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import { childOf } from '../../support/children.ts';
import { post } from '../../support/mcp.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

interface Listed {
  readonly name: string;
  readonly outputSchema: Parameters<AjvJsonSchemaValidator['getValidator']>[0];
}

test.each(['result', 'widget'])('every output of every tool, with KEY_REVEAL=%s', async (keyReveal) => {
  const env = { ADMIN_CLAIM: 'role=admin', KEY_REVEAL: keyReveal, KEY_QUOTA: '1000000/day', TOOLS_LIST: 'all' };
  await using app = await createTestApp({ env });
  const { body } = await post(app, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const ajv = new AjvJsonSchemaValidator();
  const tools: readonly Listed[] = body.result.tools;
  const validators = new Map(tools.map(({ name, outputSchema }) => [name, ajv.getValidator(outputSchema)]));
  const called = new Set<string>();

  async function call(tool: string, headers: Record<string, string>, input: object = {}) {
    const { status, body } = await app.call(tool, input, headers);
    expect({ tool, status, ...validators.get(tool)?.(body) }).toMatchObject({ tool, status: 200, valid: true });
    called.add(tool);
    return body;
  }
  const alice = await bearer(app, 'alice');
  const admin = { authorization: `Bearer ${await app.token('root', { role: 'admin' })}` };
  const keyOf = ({ key }: { key: string }) => ({ 'x-api-key': key });

  const bare = await call('create_api_key', alice, { name: 'bare', scopes: [] });
  const full = await call('create_api_key', alice, {
    name: 'full "1" \u{1f600}',
    scopes: ['read', 'write'],
    expiresInDays: 0.5,
    rateLimit: { requests: 10, window: '1m' },
    quota: { requests: 100, period: 'day' },
    resource: app.url,
  });
  const ended = await call('create_api_key', alice, { name: 'ended', scopes: ['read'], expiresInDays: 0.0005 });
  for (const key of [bare, full]) await call('whoami', keyOf(key));
  await call('get_data', keyOf(full));
  await call('rotate_api_key', alice, { keyId: bare.id });
  await call('rotate_api_key', alice, { keyId: full.id, overlapHours: 1 });
  app.clock.advance(60_000);
  await call('list_api_keys', alice);
  await call('admin_list_keys', admin);
  for (const change of [
    { name: 'changed', expiresInDays: 2 },
    { rateLimit: null, quota: null, expiresInDays: null, metadata: { team: 'a' } },
  ]) {
    await call('admin_update_key', admin, { keyId: full.id, ...change });
  }
  const plan = { rateLimit: { requests: 10, window: '1h' }, quota: { requests: 9, period: 'month' }, keysMax: 5 };
  for (const settings of [{}, { ...plan, metadata: { plan: 'pro' }, blocked: false }]) {
    await call('admin_update_owner', admin, { owner: 'alice', ...settings });
    await call('admin_list_owners', admin);
    await call('whoami', keyOf(bare));
  }
  const parent = await call('create_api_key', alice, { name: 'parent', scopes: ['read', 'delegate'] });
  const { key } = await childOf(app, parent.key);
  await call('whoami', keyOf({ key }));
  await call('list_api_keys', alice, { childrenOf: parent.id });
  await call('admin_list_keys', admin);
  await call('revoke_api_key', alice, { keyId: ended.id });
  await call('list_api_keys', alice);
  await call('delete_api_key', alice, { keyId: ended.id });
  for (let again = 0; again < 2; again += 1) await call('admin_revoke_keys', admin, { owner: 'alice' });
  await call('list_api_keys', alice);
  await call('list_api_keys', await bearer(app, 'nobody'));
  expect([...called].sort()).toEqual([...validators.keys()].sort());
});
