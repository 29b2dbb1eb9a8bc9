// A key that is made by a click, and one that a program asks for: which server it is for, that there is one, and that what
// bounds every key bounds it: teams, an operator's ceilings, blocks, and what is lowered between decision and redemption.

import { describe, expect, test } from 'bun:test';
import { testClock } from '../../support/clock.ts';
import { makeForConnection, type Registered, register } from '../../support/hand-over.ts';
import { askAsPerson, askForKey, pollForKey } from '../../support/key-request.ts';
import { bearer, createTestApp, eventsIn, type Json, type TestApp } from '../../support/test-app.ts';

const OTHER = 'https://other.example/mcp';
const ENV = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', OAUTH_RESOURCES: OTHER };
const DECIDED = { name: 'n', scopes: ['read'] };

type User = Record<string, string>;
interface Response {
  readonly status: number;
  readonly body: Json;
}

/** A key that was asked for. */
interface Asked {
  decide(user: User, decided?: object): Promise<Response>;
  /** At the app that it was asked at, or at a later one. */
  redeem(app?: TestApp): Promise<Response>;
}

/** `resource`: another server than this. */
const WAYS: Readonly<Record<string, (app: TestApp, resource?: string) => Promise<Asked>>> = {
  async 'by a click'(app, resource) {
    const client: Registered = await register(app);
    let code = '';
    return {
      async decide(user, decided = DECIDED) {
        const response = await makeForConnection(app, client.page(resource ? { resource } : {}), user, decided);
        const body = (await response.json()) as { location?: string };
        code = new URL(body.location ?? app.url).searchParams.get('code') ?? '';
        return { status: response.status, body };
      },
      redeem: (at = app) => client.redeem(code, {}, {}, at),
    };
  },
  async 'for a program'(app, resource) {
    const { body } = await askForKey(app, resource ? { resource } : {});
    return {
      decide: (user, decided = DECIDED) =>
        askAsPerson(app, 'decision', { userCode: body.user_code, approve: true, ...decided }, user),
      redeem: (at = app) => pollForKey(at, body.device_code),
    };
  },
};

const listed = async (app: TestApp, user: User) => (await app.call('list_api_keys', {}, user)).body.keys;

describe.each(Object.entries(WAYS))('%s', (_, ask) => {
  test('for another server the key is bound to that', async () => {
    await using app = await createTestApp({ env: ENV });
    const user = await bearer(app, 'alice');
    const asked = await ask(app, `${OTHER}/`);
    await asked.decide(user);
    const { access_token: key } = (await asked.redeem()).body;
    expect(await listed(app, user)).toMatchObject([{ resource: OTHER }]);
    expect((await app.useKey(key)).status).toBe(401);
  });

  test('of a hundred who redeem at once one gets a key, and one is made', async () => {
    await using app = await createTestApp({ env: ENV });
    const user = await bearer(app, 'alice');
    const asked = await ask(app);
    await asked.decide(user);
    const answers = await Promise.all(Array.from({ length: 100 }, () => asked.redeem()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(99);
    expect(await listed(app, user)).toHaveLength(1);
    expect((await eventsIn(app)).filter(({ kind }) => kind === 'created')).toHaveLength(1);
  });

  test('an owner who was blocked since, or has as many keys as they may, gets none', async () => {
    await using app = await createTestApp({ env: ENV, store: 'embedded' });
    const [alice, bob] = [await bearer(app, 'alice'), await bearer(app, 'bob')];
    const [ofAlice, ofBob] = [await ask(app), await ask(app)];
    await ofAlice.decide(alice);
    await ofBob.decide(bob);
    await app.keys('block', 'alice', '--yes');
    await app.keys('owner', 'bob', '--keys', '1');
    await app.createKey('bob');
    for (const asked of [ofAlice, ofBob]) {
      expect(await asked.redeem()).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
    }
    const again = await ask(app);
    app.clock.advance(1001);
    expect((await again.decide(alice)).body).toMatchObject({ status: 403, code: 'user_blocked' });
    expect((await again.decide(bob)).body).toMatchObject({ status: 409, code: 'key_limit_reached' });
  });

  test('the key is the team’s, and the trail says who decided', async () => {
    await using app = await createTestApp({ env: { ...ENV, JWT_OWNER_CLAIM: 'org' } });
    const asked = await ask(app);
    expect((await asked.decide(await bearer(app, 'alice'))).status).toBe(401); // of no team
    expect((await asked.decide(await bearer(app, 'alice', { org: 'acme' }))).status).toBe(200);
    const { access_token: key } = (await asked.redeem()).body;
    expect((await app.useKey(key)).body.owner).toBe('acme');
    expect(await listed(app, await bearer(app, 'bob', { org: 'acme' }))).toMatchObject([{ name: 'n' }]);
    expect(await listed(app, await bearer(app, 'alice', { org: 'other' }))).toEqual([]);
    const [created] = await eventsIn(app);
    expect(created).toMatchObject({ kind: 'created', owner: 'acme', actor: 'alice' });
  });

  test('nobody gives a scope that their token doesn’t let them give, and may decide again', async () => {
    await using app = await createTestApp({ env: { ...ENV, JWT_SCOPE_CLAIM: 'scope' } });
    const asked = await ask(app);
    const user = await bearer(app, 'alice', { scope: 'read' });
    const refused = await asked.decide(user, { ...DECIDED, scopes: ['read', 'admin'] });
    expect([refused.status, refused.body.code]).toEqual([403, 'scope_not_granted']);
    expect((await asked.decide(user)).status).toBe(200);
    expect((await asked.redeem()).body.scope).toBe('read');
  });

  test('the key gets the longest life and quota that there are, unless told, and a refusal has the words of the tool', async () => {
    await using app = await createTestApp({ env: { ...ENV, KEY_MAX_DAYS: '7', KEY_QUOTA: '50/day' } });
    const asked = await ask(app);
    const user = await bearer(app, 'alice');
    const tooLong = await asked.decide(user, { ...DECIDED, expiresInDays: 8 });
    const told = (await app.call('create_api_key', { ...DECIDED, expiresInDays: 8 }, user)).body;
    expect(tooLong).toMatchObject({ status: 400, body: { detail: told.detail, issues: told.issues } });
    expect((await asked.decide(user, { ...DECIDED, quota: { requests: 51, period: 'day' } })).status).toBe(400);
    await asked.decide(user);
    expect((await asked.redeem()).body.expires_in).toBe(7 * 86_400);
    expect(await listed(app, user)).toMatchObject([{ quota: { requests: 50, period: 'day' } }]);
  });

  test.each([
    ['KEY_SCOPES', { KEY_SCOPES: 'write', SAMPLE_TOOL: '0' }],
    ['KEY_MAX_DAYS', { KEY_MAX_DAYS: '1' }],
    ['KEY_QUOTA', { KEY_QUOTA: '5/day' }],
    ['OAUTH_RESOURCES', { OAUTH_RESOURCES: undefined }],
  ])('a ceiling that was lowered after the decision (%s) holds', async (_name, changed) => {
    const clock = testClock();
    const before = await createTestApp({ env: ENV, store: 'embedded', clock });
    const asked = await ask(before, OTHER);
    const quota = { requests: 100, period: 'day' };
    expect((await asked.decide(await bearer(before, 'alice'), { ...DECIDED, expiresInDays: 2, quota })).status).toBe(
      200,
    );
    await before.close();
    const { folder } = before;
    await using after = await createTestApp({ env: { ...ENV, ...changed }, store: 'embedded', folder, clock });
    expect(await asked.redeem(after)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
    expect(await listed(after, await bearer(after, 'alice'))).toEqual([]);
  });
});
