// Ten times the load the server can take, for a moment: every answer must be right or 503, and soon after it must be
// as quick as before.

import { join } from 'node:path';
import { startProcess } from '../bench/process.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { type RawConnection, rawConnection, rawPost } from '../support/raw.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const CONNECTIONS = 200;
const FACTOR = 10;
/** The load comes in this time; what it takes to work it off comes after. */
const FLOOD_MS = 1000;
/** Then whoever still waits hangs up. */
const PATIENCE_MS = 2000;
const MEASURE_REQUESTS = 4000;
/** One call in so many creates a key: those are written to the disk, one after the other. */
const CREATE_EVERY = 20;
/** What a client that comes afterwards may wait: it is a normal answer on a busy machine. */
const NORMAL_MS = 500;

export interface OverloadReport {
  /** Requests a second it answers when it is busy all the time. */
  readonly capacity: number;
  readonly sent: number;
  readonly answered: number;
  /** Of those, 503. */
  readonly shed: number;
  /** Answers that were neither right nor 503 with Retry-After. */
  readonly wrong: readonly string[];
  /** From the end of the flood until a client is answered normally. */
  readonly recoveredMs: number;
}

interface Source {
  readonly connection: RawConnection;
  readonly keyId: string;
  readonly use: string;
  readonly create: string;
}

export async function overload(): Promise<OverloadReport> {
  await using server = await startProcess({
    name: 'the server',
    script: join(import.meta.dir, '../../src/main.ts'),
    env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' },
  });
  const { url } = server;
  const capacity = await measureCapacity(await sources(url, 16));
  const flooding = await sources(url, CONNECTIONS);
  const each = Math.ceil((capacity * FACTOR * (FLOOD_MS / 1000)) / CONNECTIONS);
  await flood(flooding, each);
  const hangUp = async () => {
    await Bun.sleep(PATIENCE_MS);
    for (const { connection } of flooding) connection.socket.destroy();
  };
  const [recoveredMs] = await Promise.all([recovery(url, flooding[0]?.use ?? ''), hangUp()]);
  const judged = flooding.map(judge);
  return {
    capacity,
    sent: each * CONNECTIONS,
    answered: judged.reduce((sum, { answered }) => sum + answered, 0),
    shed: judged.reduce((sum, { shed }) => sum + shed, 0),
    wrong: judged.flatMap(({ wrong }) => wrong),
    recoveredMs,
  };
}

/** Connections, each of a user of its own with a key of its own: an answer that goes astray shows. */
const sources = (url: string, count: number): Promise<Source[]> =>
  Promise.all(
    Array.from({ length: count }, async (_, index): Promise<Source> => {
      const user = await userHeaders(`user ${count} ${index}`);
      const { body } = await callOver(url, 'create_api_key', { name: 'first', scopes: ['read'] }, user);
      const input = JSON.stringify({ name: body.id, scopes: ['read'] });
      return {
        connection: await rawConnection(url),
        keyId: body.id,
        use: rawPost('/tools/get_data', '{}', { 'X-API-Key': body.key }),
        create: rawPost('/tools/create_api_key', input, { Authorization: user.authorization }),
      };
    }),
  );

const answersIn = (text: string) => text.split('HTTP/1.1 ').length - 1;

async function measureCapacity(busy: readonly Source[]): Promise<number> {
  const each = MEASURE_REQUESTS / busy.length;
  const startedMs = performance.now();
  await Promise.all(
    busy.map(({ connection, use }) => {
      connection.socket.write(use.repeat(each));
      return connection.until((text) => answersIn(text) >= each);
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  for (const { connection } of busy) connection.socket.destroy();
  return MEASURE_REQUESTS / seconds;
}

async function flood(flooding: readonly Source[], each: number): Promise<void> {
  const steps = 10;
  for (let step = 0; step < steps; step += 1) {
    for (const { connection, use, create } of flooding)
      for (let sent = 0; sent < each / steps; sent += CREATE_EVERY)
        connection.socket.write(use.repeat(CREATE_EVERY - 1) + create);
    await Bun.sleep(FLOOD_MS / steps);
  }
}

/** Milliseconds until three calls in a row, of a client that just came, are answered with 200 in NORMAL_MS. */
async function recovery(url: string, use: string): Promise<number> {
  const startedMs = performance.now();
  for (let normal = 0; normal < 3; ) {
    const askedMs = performance.now();
    const connection = await rawConnection(url);
    connection.socket.write(use);
    const text = await connection.until((received) => answersIn(received) === 1);
    connection.socket.destroy();
    normal = text.startsWith('HTTP/1.1 200') && performance.now() - askedMs < NORMAL_MS ? normal + 1 : 0;
  }
  return performance.now() - startedMs;
}

function judge({ connection, keyId }: Source) {
  const answers = connection.received().split('HTTP/1.1 ').slice(1);
  const shed = answers.filter((answer) => answer.startsWith('503 ') && /^retry-after: \d/im.test(answer));
  const wrong = answers.slice(0, -1).filter((answer) => !shed.includes(answer) && !isRight(answer, keyId)); // the last may be cut off
  return { answered: answers.length, shed: shed.length, wrong };
}

const isRight = (answer: string, keyId: string) =>
  answer.startsWith('200 ') && (answer.includes(`"key":{"id":"${keyId}"`) || answer.includes(`"name":"${keyId}"`));
