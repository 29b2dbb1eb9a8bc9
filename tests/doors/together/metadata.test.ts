// Data of the operator's own on a key: who sets it, where it is handed on, and what it must be.

import { expect, test } from 'bun:test';
import { defineTool, ok, type ToolDeps, v } from '../../../src/start/package/index.ts';
import { childOf } from '../../support/children.ts';
import { executeAt } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { labelled } from '../../support/labels.ts';
import { leaseOf, serviceOf } from '../../support/service.ts';
import { STORE_MODES, startStore } from '../../support/store-mode.ts';
import { bearer, createTestApp, eventsIn, sharedApp } from '../../support/test-app.ts';
import { noInput } from '../../support/tools.ts';

const ENV = { ADMIN_CLAIM: 'sub=root' };
const PLAN = { plan: 'pro', region: 'Zürich' };

/** What a tool is told. */
const told = ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    ...noInput('told'),
    output: v.strictObject({ metadata: v.unknown() }),
    run: (_, { auth }) => ok({ metadata: auth.metadata }),
  });

const store = await startStore('embedded');
const app = await sharedApp({ env: ENV, store });
/** Another process, with a tool of somebody's own. */
const other = await sharedApp({ store, tools: (deps) => [told(deps)] });

async function toolIsTold(key: string): Promise<unknown> {
  other.clock.advance(1001);
  return (await other.call('told', {}, { 'x-api-key': key })).body.metadata;
}

const update = async (input: object, on = app) => {
  const { status, body } = await on.call('admin_update_key', input, await bearer(on, 'root'));
  return { status, ...body };
};

const headerOf = async (key: string, on = app) => {
  const { status, headers } = await fetch(`${on.url}/verify`, { headers: { 'x-api-key': key } });
  return [status, headers.get('x-key-metadata')];
};

test('what an admin sets is handed on, over the owner’s, to services, tools and admins, and to no list of the owner', async () => {
  const service = await serviceOf(app);
  const { id, key } = await app.createKey('alice');
  const said = async () => ({
    tool: await toolIsTold(key),
    whoami: (await app.call('whoami', {}, { 'x-api-key': key })).body.metadata,
    introspect: (await leaseOf(app, service, key, {})).body.metadata,
    verify: (await headerOf(key))[1],
  });
  expect(await said()).toEqual({ tool: null, whoami: null, introspect: undefined, verify: '' });
  expect(await update({ keyId: id, metadata: PLAN })).toMatchObject({ status: 200, id, metadata: PLAN });
  const inHeader = '%7B%22plan%22:%22pro%22%2C%22region%22:%22Z%C3%BCrich%22%7D';
  expect(await said()).toEqual({ tool: PLAN, whoami: PLAN, introspect: PLAN, verify: inHeader });
  expect((await eventsIn(app, '--key', id)).at(-1)).toMatchObject({
    kind: 'changed',
    actor: 'root',
    fields: ['metadata'],
  });
  const { body } = await app.call('admin_list_keys', { owner: 'alice' }, await bearer(app, 'root'));
  expect(body.keys).toMatchObject([{ metadata: PLAN }]);
  expect(JSON.parse(await app.keys('list', '--user', 'alice', '--json'))).toMatchObject({ metadata: PLAN });
  expect(await app.keys('show', id)).toContain('{"plan":"pro","region":"Zürich"}');
  const own = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  expect(own.body.keys[0]).not.toHaveProperty('metadata');

  await executeAt(
    store.env().DATABASE_URL ?? '',
    `INSERT INTO owners (owner, metadata) VALUES ('alice', '{"plan":"free","seats":"3"}')`,
  );
  app.clock.advance(1001);
  const both = { ...PLAN, seats: '3' };
  expect(await said()).toMatchObject({ tool: both, whoami: both, introspect: both });
  expect(await update({ keyId: id, metadata: {} })).not.toHaveProperty('metadata');
  expect((await said()).tool).toEqual({ plan: 'free', seats: '3' });
  await update({ keyId: id, metadata: PLAN });
  expect(await update({ keyId: id, metadata: null })).not.toHaveProperty('metadata');
  expect(await app.logText()).not.toContain('seats');
});

test.each(rows(STORE_MODES, 1))('on a store that is %s another process follows within the bound', async (mode) => {
  await using store = await startStore(mode);
  await using here = await createTestApp({ store, env: ENV });
  await using there = await createTestApp({ store, env: ENV });
  const { id, key } = await here.createKey('alice');
  expect(await headerOf(key, there)).toEqual([200, '']);
  await update({ keyId: id, metadata: { plan: 'x' } }, here);
  there.clock.advance(1001);
  expect(await headerOf(key, there)).toEqual([200, '%7B%22plan%22:%22x%22%7D']);
});

test('a child hands on what its parent has', async () => {
  const parent = await app.createKey('erin', { scopes: ['read', 'delegate'] });
  await update({ keyId: parent.id, metadata: { plan: 'x' } });
  const { key } = await childOf(app, parent.key);
  expect(await headerOf(key)).toEqual([200, '%7B%22plan%22:%22x%22%7D']);
  await app.keys('owner', 'erin', '--meta', 'seats=3');
  app.clock.advance(1001);
  expect(await headerOf(key)).toEqual([200, '%7B%22seats%22:%223%22%2C%22plan%22:%22x%22%7D']);
});

test('every status but 200 has the header, empty', async () => {
  const { id, key } = await app.createKey('bob');
  await update({ keyId: id, metadata: PLAN });
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'bob'));
  expect(await headerOf(key)).toEqual([401, '']);
});

const NAMES_21 = Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`n${at}`, 'x']));

test.each(
  labelled([
    [],
    'plan',
    { Plan: 'x' },
    { '1st': 'x' },
    { ['a'.repeat(41)]: 'x' },
    { plan: 1 },
    { plan: null },
    { plan: 'x'.repeat(201) },
    { plan: '\ud800' },
    NAMES_21,
    { a: 'ü'.repeat(166) },
    JSON.parse('{"__proto__": "x"}'),
  ]),
)('%s is no metadata, and changes nothing', async (_label, metadata) => {
  const { id } = await app.createKey('carol');
  expect(await update({ keyId: id, name: 'other', metadata })).toMatchObject({ status: 400, code: 'invalid_input' });
  const { body } = await app.call('admin_list_keys', { owner: 'carol' }, await bearer(app, 'root'));
  expect(body.keys[0].name).toBe('test key');
});

test('commands set it, replace it, and take it away', async () => {
  const key = (
    await app.keys('create', '--user', 'dan', '--name', 'k', '--meta', 'plan=pro', '--meta', 'note=a=b')
  ).trim();
  const id = (await app.call('whoami', {}, { 'x-api-key': key })).body.keyId;
  const metadata = async () => {
    app.clock.advance(1001);
    return (await app.call('whoami', {}, { 'x-api-key': key })).body.metadata;
  };
  expect(await metadata()).toEqual({ plan: 'pro', note: 'a=b' });
  await app.keys('update', id, '--meta', 'plan=free');
  expect(await metadata()).toEqual({ plan: 'free' });
  for (const wrong of [['plan'], ['none', '--meta', 'plan=x'], ['plan=x', '--meta', 'plan=y'], ['Plan=x']]) {
    await expect(app.keys('update', id, '--meta', ...wrong)).rejects.toThrow('--meta');
  }
  await app.keys('update', id, '--meta', 'none');
  expect(await metadata()).toBeNull();
});
