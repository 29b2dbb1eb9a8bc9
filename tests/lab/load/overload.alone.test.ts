// Many times the load the server can take, for a moment: every response must be right or 503, and soon after it must be
// as quick as before.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { type HttpSocket, openHttpSocket, postText } from '../../support/http-socket.ts';
import { startOurs } from '../bench/ours.ts';

/** Each asks again as soon as it has a response, so this many requests wait all the time. 32 keep the server busy. */
const CONNECTIONS = 2000;
const CALLERS = 200;
/** Few enough for a slow machine: none may be shed before the flood. */
const CREATING_AT_ONCE = 10;
const FLOOD_MS = 3000;
/** One call in this many creates a key; those are written to the disk one after the other. */
const CREATE_EVERY = 20;
/** A client that comes afterwards may wait this long, which is normal on a busy machine. */
const NORMAL_MS = 500;

interface Caller {
  readonly keyId: string;
  readonly use: string;
  readonly create: string;
}

interface Flooding {
  readonly caller: Caller;
  readonly connection: HttpSocket;
  sent: number;
}

/** A user with a key, so that a response sent to the wrong client shows. */
async function newCaller(url: string, index: number): Promise<Caller> {
  const user = await userHeaders(`user ${index}`);
  const { status, body } = await callOver(url, 'create_api_key', { name: 'first', scopes: ['read'] }, user);
  if (status !== 200) throw new Error(`create_api_key responded ${status}`);
  const input = JSON.stringify({ name: body.id, scopes: ['read'] });
  return {
    keyId: body.id,
    use: postText('/tools/get_data', '{}', { 'X-API-Key': body.key }),
    create: postText('/tools/create_api_key', input, { Authorization: user.authorization }),
  };
}

const connect = (url: string, callers: readonly Caller[], count: number): Promise<Flooding[]> =>
  Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const caller = callers[index % callers.length];
      if (caller === undefined) throw new Error('no callers');
      return { caller, connection: await openHttpSocket(url), sent: 0 };
    }),
  );

const responsesIn = (text: string) => text.split('HTTP/1.1 ').length - 1;

/** Sends a request, and the next after each response. */
async function askUntil(one: Flooding, isOver: () => boolean): Promise<void> {
  const { caller, connection } = one;
  while (!isOver()) {
    one.sent += 1;
    connection.socket.write(one.sent % CREATE_EVERY === 0 ? caller.create : caller.use);
    await connection.readUntil((text) => responsesIn(text) === one.sent && isWholeAtEnd(text));
  }
}

/** True once the body has come as well: all responses here are JSON objects. */
const isWholeAtEnd = (text: string) => text.endsWith('}');

/** Milliseconds until a new client gets three responses of 200 in a row, each within NORMAL_MS. */
async function recovery(url: string, use: string): Promise<number> {
  const startedMs = performance.now();
  for (let normal = 0; normal < 3; ) {
    const askedMs = performance.now();
    const connection = await openHttpSocket(url);
    connection.socket.write(use);
    const text = await connection.readUntil((received) => responsesIn(received) === 1);
    connection.socket.destroy();
    normal = text.startsWith('HTTP/1.1 200') && performance.now() - askedMs < NORMAL_MS ? normal + 1 : 0;
  }
  return performance.now() - startedMs;
}

function judge({ connection, caller: { keyId } }: Flooding) {
  const responses = connection.received().split('HTTP/1.1 ').slice(1);
  const shed = responses.filter((response) => response.startsWith('503 ') && /^retry-after: \d/im.test(response));
  const wrong = responses.filter((response) => !shed.includes(response) && !isRight(response, keyId));
  return { answered: responses.length, wrong };
}

const isRight = (response: string, keyId: string) =>
  response.startsWith('200 ') &&
  (response.includes(`"key":{"id":"${keyId}"`) || response.includes(`"name":"${keyId}"`));

test('sixty times the load that keeps it busy: slow or 503, never wrong, and normal again within 5 s', async () => {
  await using server = await startOurs(join(temporaryFolder(), 'keys.db'));
  const { url } = server;
  const callers: Caller[] = [];
  while (callers.length < CALLERS) {
    const some = Array.from({ length: CREATING_AT_ONCE }, (_, index) => newCaller(url, callers.length + index));
    callers.push(...(await Promise.all(some)));
  }
  const flooding = await connect(url, callers, CONNECTIONS);
  const endsAtMs = performance.now() + FLOOD_MS;
  const [recoveredMs] = await Promise.all([
    Bun.sleep(FLOOD_MS).then(() => recovery(url, callers[0]?.use ?? '')),
    ...flooding.map((one) => askUntil(one, () => performance.now() >= endsAtMs)),
  ]);
  for (const { connection } of flooding) connection.socket.destroy();
  const judged = flooding.map(judge);
  const sent = flooding.reduce((sum, one) => sum + one.sent, 0);
  const answered = judged.reduce((sum, one) => sum + one.answered, 0);
  expect(answered).toBe(sent);
  expect(judged.flatMap(({ wrong }) => wrong).slice(0, 3)).toEqual([]); // neither right nor 503 with Retry-After
  expect(answered).toBeGreaterThan(1000);
  expect(recoveredMs).toBeLessThan(5000);
}, 180_000);
