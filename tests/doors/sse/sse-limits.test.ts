// What many streams, quiet streams and streams that nobody reads do to the server; and how it stops while some are
// open.

import { describe, expect, test } from 'bun:test';
import { defineTool, ok } from '../../../src/start/package/index.ts';
import { postJson } from '../../support/client.ts';
import { deafClient } from '../../support/deaf-client.ts';
import { rows } from '../../support/everything.ts';
import { isWhole, openHttpSocket, postText } from '../../support/http-socket.ts';
import { createIssuer, JWKS_PATH } from '../../support/issuer.ts';
import { call, openSse, request } from '../../support/mcp.ts';
import { type Runtime, startServer } from '../../support/server-process.ts';
import {
  BEHIND_PROXY,
  cameFrom,
  manyStreams,
  openSseSocket,
  postUntilCutOff,
  type SseSocket,
  sessionsOf,
} from '../../support/sse-socket.ts';
import { bearer, createTestApp, NO_CONNECTION, type TestApp } from '../../support/test-app.ts';
import { anyone, noInput, steeredTool } from '../../support/tools.ts';
import { waitFor } from '../../support/wait-for.ts';

const SESSIONS_MAX = 1000;
const PER_ADDRESS_MAX = 100;
const PER_OWNER_MAX = 100;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} });
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };

const startBehindProxy = () => createTestApp({ env: BEHIND_PROXY });

/** Whose a stream is. */
type Kind = 'nobody’s' | 'somebody’s';

async function openAs(app: TestApp, kind: Kind, address: string): Promise<SseSocket> {
  const user = kind === 'somebody’s' ? await bearer(app, 'alice') : {};
  const stream = await openSseSocket(app.url, { ...cameFrom(address), ...user });
  await postJson(stream.postUrl, initialize, user);
  return stream;
}

async function isOpen(app: TestApp, { postUrl }: SseSocket): Promise<boolean> {
  return (await postJson(postUrl, initialized, await bearer(app, 'alice'))).status === 202;
}

const OPENED: readonly Kind[] = ['somebody’s', 'nobody’s', 'somebody’s', 'nobody’s', 'nobody’s'];
const MAKE_ROOM = [1, 3, 4];

/** Opens streams of both kinds, then somebody's until there are as many as may be, then more, each in another’s place. */
async function makeRoomInOrder(
  app: TestApp,
  most: number,
  addressOf: (index: number) => string,
  others = 0,
): Promise<void> {
  const count = most + others;
  const opened: SseSocket[] = [];
  for (const [index, kind] of OPENED.entries()) opened.push(await openAs(app, kind, addressOf(index)));
  const users = await Promise.all(Array.from({ length: 20 }, (_, index) => bearer(app, `user ${index}`)));
  const userOf = (index: number) => users[index % users.length] ?? {};
  for (let index = opened.length; index < most; index += 1) {
    await openSseSocket(app.url, { ...cameFrom(addressOf(index)), ...userOf(index) });
  }
  expect(await sessionsOf(app.url)).toBe(count);
  for (const [place, index] of MAKE_ROOM.entries()) {
    await openAs(app, 'somebody’s', addressOf(index));
    await opened[index]?.ended();
    expect(await sessionsOf(app.url)).toBe(count);
    for (const later of MAKE_ROOM.slice(place + 1)) expect(opened[later]?.text()).not.toContain('\r\n0\r\n\r\n');
  }
  const refused = await fetch(`${app.url}/sse`, { headers: { ...cameFrom(addressOf(0)), ...userOf(0) } });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(((await refused.json()) as { code: string }).code).toBe('overloaded');
  const [first] = opened;
  if (first === undefined) throw new Error('none was opened');
  expect(await isOpen(app, first)).toBe(true);
  first.drop();
  await waitFor(async () => (await sessionsOf(app.url)) < count);
  await openAs(app, 'nobody’s', addressOf(0));
}

describe('the number of streams', () => {
  test('at the limit of streams the oldest without an owner makes room; without one a new stream is 503', async () => {
    await using app = await startBehindProxy();
    await makeRoomInOrder(app, SESSIONS_MAX, (index) => `192.0.2.${index % 20}`);
  }, 180_000);

  test('an address at its share of streams has its own closed in the same order', async () => {
    await using app = await startBehindProxy();
    const others = [await openAs(app, 'nobody’s', '192.0.2.1'), await openAs(app, 'somebody’s', '192.0.2.1')];
    // A /64 is one address: one host may own it.
    const addressOf = (index: number) => `2001:db8:0:1::${index}`;
    await makeRoomInOrder(app, PER_ADDRESS_MAX, addressOf, others.length);
    for (const other of others) expect(await isOpen(app, other)).toBe(true);
  }, 180_000);

  test('ten addresses without a credential hold 100 streams each: an eleventh that has one gets in, and stays', async () => {
    await using app = await startBehindProxy();
    const strangers: SseSocket[] = [];
    for (let index = 0; index < SESSIONS_MAX; index += 1) {
      strangers.push(await openAs(app, 'nobody’s', `192.0.2.${index % 10}`));
    }
    const hers = await openAs(app, 'somebody’s', '198.51.100.7');
    await strangers[0]?.ended();
    for (let index = 0; index < 20; index += 1) await openAs(app, 'nobody’s', `203.0.113.${index}`);
    expect(await isOpen(app, hers)).toBe(true);
    expect(await sessionsOf(app.url)).toBe(SESSIONS_MAX);
  }, 180_000);

  test('one owner has 100 streams, from however many addresses, and takes no more by claiming those of nobody', async () => {
    await using app = await startBehindProxy();
    const alice = await bearer(app, 'alice');
    const addressOf = (index: number) => cameFrom(`192.0.2.${index % 10}`);
    for (let index = 0; index < PER_OWNER_MAX; index += 1) {
      const stream = await openSseSocket(app.url, { ...addressOf(index), ...alice });
      await postJson(stream.postUrl, initialize, alice);
    }
    const refused = await fetch(`${app.url}/sse`, { headers: { ...addressOf(0), ...alice } });
    expect(refused.status).toBe(503);
    const nobodys = await openSseSocket(app.url, addressOf(0));
    expect((await postJson(nobodys.postUrl, initialize, alice)).status).toBe(503);
    expect((await postJson(nobodys.postUrl, initialize)).status).toBe(202);
    const bob = await openSseSocket(app.url, { ...addressOf(0), ...(await bearer(app, 'bob')) });
    expect((await postJson(bob.postUrl, initialize, await bearer(app, 'bob'))).status).toBe(202);
  }, 180_000);

  test('an anonymous client that opens all it can takes only its share, and nobody’s place', async () => {
    await using app = await startBehindProxy();
    const mine = await openAs(app, 'nobody’s', '192.0.2.1');
    const flood: SseSocket[] = [];
    for (let round = 0; round < 20; round += 1) {
      const some = Array.from({ length: 50 }, () => openSseSocket(app.url, cameFrom('198.51.100.7')));
      flood.push(...(await Promise.all(some)));
    }
    expect(flood).toHaveLength(SESSIONS_MAX);
    expect(await sessionsOf(app.url)).toBe(1 + PER_ADDRESS_MAX);
    expect(await isOpen(app, mine)).toBe(true);
    await openAs(app, 'nobody’s', '192.0.2.2');
    expect(await sessionsOf(app.url)).toBe(2 + PER_ADDRESS_MAX);
  }, 180_000);

  test('without a proxy the address is the connection’s, whatever the headers say', async () => {
    await using app = await createTestApp();
    await manyStreams(app.url, PER_ADDRESS_MAX + 10);
    expect(await sessionsOf(app.url)).toBe(PER_ADDRESS_MAX);
  }, 180_000);
});

describe('a quiet stream', () => {
  test('a quiet stream gets a comment every 15 seconds, for an hour', async () => {
    await using app = await createTestApp();
    const session = await openSse(app);
    app.clock.advance(14_999);
    await session.post(request('ping'));
    await session.nextMessage();
    expect(session.events.comments()).toBe(0);
    app.clock.advance(1);
    await session.events.comment();
    for (let comments = 2; comments <= 241; comments += 1) {
      app.clock.advance(15_000);
      await session.events.comment();
      expect(session.events.comments()).toBe(comments);
    }
    await session.post(request('ping', undefined, 'an hour later'));
    expect((await session.nextMessage()).id).toBe('an hour later');
  }, 180_000);

  test('a quiet stream of progress gets comments too', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const body = JSON.stringify(call('steered', {}, { _meta: { progressToken: 1 } }));
    const { socket, readUntil: reads } = await openHttpSocket(app.url);
    socket.write(postText('/mcp', body, { Accept: 'text/event-stream' }));
    await steered.running;
    steered.report(1);
    await reads((text) => text.includes('"progress":1'));
    app.clock.advance(15_000);
    await reads((text) => text.includes(': keepalive'));
    steered.finish();
    await reads((text) => text.includes('"result"'));
    socket.destroy();
  }, 180_000);
});

/** A tool whose calls all return `chars` characters at once, when they are told to. */
function largeTool(chars: number) {
  const ready = Promise.withResolvers<void>();
  const seen = { running: 0 };
  const tool = defineTool(anyone, {
    ...noInput('large'),
    async run() {
      seen.running += 1;
      await ready.promise;
      return ok({ content: [{ type: 'text', text: 'x'.repeat(chars) }] });
    },
  });
  return { tool, seen, response: ready.resolve };
}

/** Has that many calls return 200 KB at the same moment, and reads what comes, by id. */
async function burstOf(calls: number): Promise<Map<number, string>> {
  const { tool, seen, response } = largeTool(200_000);
  await using app = await createTestApp({ tools: () => [tool] });
  const session = await openSse(app);
  for (let id = 0; id < calls; id += 1) await session.post({ ...call('large'), id });
  await waitFor(() => seen.running === calls);
  response();
  const responses = new Map<number, string>();
  while (responses.size < calls) {
    const { id, result } = await session.nextMessage();
    responses.set(id, result.content[0].text);
  }
  return responses;
}

describe('responses that are ready at the same moment', () => {
  test('20 responses of 200 KB at the same moment all reach a client that reads', async () => {
    for (const text of (await burstOf(20)).values()) expect(text).toHaveLength(200_000);
  });

  test('of 120 large responses at the same moment, those without room are replaced by an error that says so', async () => {
    const texts = [...(await burstOf(120)).values()];
    const whole = texts.filter((text) => text.length === 200_000);
    expect(whole.length).toBeGreaterThanOrEqual(20);
    expect(whole.length).toBeLessThan(120);
    const others = new Set(texts.filter((text) => text.length !== 200_000));
    expect([...others]).toEqual(['The server is at its limit; try again']);
  });
});

test('a graceful stop ends idle streams at once, and others when their requests are done', async () => {
  const steered = steeredTool();
  const reading = Promise.withResolvers<{ text: string }>();
  const begun = Promise.withResolvers<void>();
  function read() {
    begun.resolve();
    return reading.promise;
  }
  const page = { uri: 'test://page', name: 'page', title: '', description: '', mimeType: 'text/plain', read };
  await using app = await createTestApp({ tools: () => [steered.tool], resources: [page] });
  const [idle, busy, reader] = [await openSse(app), await openSse(app), await openSse(app)];
  await busy.post(call('steered'));
  await steered.running;
  const posted = reader.post(request('resources/read', { uri: page.uri }));
  await begun.promise;
  app.handler.endStreams();
  let isIdle = false;
  const whenIdle = app.handler.idle().then(() => {
    isIdle = true;
  });
  expect(await idle.events.next()).toBeUndefined();
  expect((await fetch(`${app.url}/sse`)).status).toBe(503);
  expect(await sessionsOf(app.url)).toBe(2);
  reading.resolve({ text: 'page' });
  expect((await posted).status).toBe(202);
  expect((await reader.nextMessage()).result.contents[0].text).toBe('page');
  expect(await reader.events.next()).toBeUndefined();
  expect(isIdle).toBe(false);
  steered.finish();
  await whenIdle;
  expect((await busy.nextMessage()).id).toBe(1);
  expect(await busy.events.next()).toBeUndefined();
  expect(await sessionsOf(app.url)).toBe(0);
});

test('a stream that is asked for first, while its part loads, does not outlive a stop', async () => {
  await using app = await createTestApp();
  const opening = app.handler.fetch(new Request(`${app.url}/sse`), NO_CONNECTION);
  app.handler.endStreams();
  expect((await opening).status).toBe(503);
  expect(await sessionsOf(app.url)).toBe(0);
});

test('a graceful stop waits for a request whose sender is being identified, and its response is sent', async () => {
  await using issuer = await createIssuer();
  await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_JWKS_URL: issuer.jwksUrl } });
  const asked = Promise.withResolvers<void>();
  const keySet = Promise.withResolvers<Response>();
  issuer.overrides.set(JWKS_PATH, () => {
    asked.resolve();
    return keySet.promise;
  });
  const session = await openSse(app);
  const token = await issuer.token({ sub: 'alice', aud: app.url, exp: app.clock.nowMs() / 1000 + 60 });
  const posted = session.post(call('list_api_keys'), { authorization: `Bearer ${token}` });
  await asked.promise;
  app.handler.endStreams();
  keySet.resolve(Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) }));
  expect((await posted).status).toBe(202);
  expect((await session.nextMessage()).result.structuredContent).toEqual({ keys: [] });
  expect(await session.events.next()).toBeUndefined();
}, 180_000);

describe.each(rows<Runtime>(['bun', 'deno'], 1))('on %s', (runtime) => {
  test('SIGTERM ends open streams and then the process', async () => {
    await using server = await startServer({ runtime });
    const streams = await Promise.all([openSseSocket(server.url), openSseSocket(server.url)]);
    expect(await sessionsOf(server.url)).toBe(2);
    const stopped = server.stop();
    for (const stream of streams) await stream.ended();
    expect(await stopped).toBe(0);
  }, 180_000);

  test('a client that does not read is cut off once its buffer is full, with its session, and holds nothing up', async () => {
    await using server = await startServer({ runtime });
    const stream = await openSseSocket(server.url);
    stream.pause();
    await postUntilCutOff(stream);
    expect(await sessionsOf(server.url)).toBe(0);
    expect(await server.stop()).toBe(0);
    stream.drop();
  }, 180_000);

  test('errors that repeat a long id, and that nobody reads, share 16 MiB', async () => {
    await using server = await startServer({ runtime });
    const { pathname, search } = new URL((await openSseSocket(server.url)).postUrl);
    const message = JSON.stringify({ ...request('ping', []), id: 'x'.repeat(1_000_000) });
    const post = postText(pathname + search, message, { Connection: 'close' });
    const deaf = Array.from({ length: 24 }, () => deafClient(server.url, post));
    const beginnings = deaf.map((client) => client.read('HTTP/1.1 400'.length)); // of all, before any is read
    const responses = deaf.map((client, at) => {
      let response = beginnings[at] ?? '';
      for (let read = client.read(64 * 1024); read !== ''; read = client.read(64 * 1024)) response += read;
      return response;
    });
    const whole = responses.filter((response) => isWhole(response) && response.length > message.length);
    expect(whole.length).toBeLessThanOrEqual(17); // the first bytes of one may have left already
    expect(beginnings.filter((status) => !['HTTP/1.1 400', 'HTTP/1.1 503', ''].includes(status))).toEqual([]);
  }, 180_000);
});
