// A server that is killed again and again while people decide on keys, and while programs and clients fetch them: what
// was acknowledged holds, and no decision makes two keys.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { executeAt } from '../../support/database-client.ts';
import { diskFolder } from '../../support/folder.ts';
import { makeForConnection, type Registered, register } from '../../support/hand-over.ts';
import { type Answer, askAsPerson, askForKey, pollForKey } from '../../support/key-request.ts';
import { type Runtime, type ServerProcess, startServer, USUAL_RUNTIME } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

/** Programs and people, half of them by a click. */
const ASKERS = 16;
/** A server is killed after so many keys, at any moment of the next ones. */
const KEYS_MIN = 4;
const KEYS_MAX = 30;
const LIFE_MS_MAX = 20;

/** One request for a key, by its name. */
interface Request {
  readonly name: string;
  /** Of a program; a client's comes with the decision. */
  readonly userCode: string | null;
  code: string | null;
  /** Whether the decision was acknowledged. */
  isDecided: boolean;
  /** `unknown`: no response came. */
  redeemed: 'no' | 'unknown' | 'yes';
  key: string | null;
}

async function handingOutRounds(rounds: number, runtime: Runtime) {
  const url = `file:${join(diskFolder(), 'keys.db')}`;
  const env = {
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: url,
    LOG_LEVEL: 'error',
    TRUST_PROXY: '1',
    PUBLIC_URL: 'http://127.0.0.1:1', // the same in all lives
    OAUTH_REDIRECTS: 'loopback',
    OAUTH_DEVICE: '1',
  };
  const faults: string[] = [];
  const all: Request[] = [];
  let asked = 0;
  let keys = 0;
  /** How many steps a kill left without a response. */
  let unanswered = 0;
  let client: Registered | undefined;

  /** Null: killed before it responded. */
  const orGone = <T>(sent: Promise<T>): Promise<T | null> => sent.catch(() => null);

  async function ask(server: ServerProcess, name: string): Promise<Request | null> {
    const common = { name, isDecided: false, redeemed: 'no', key: null } as const;
    asked += 1;
    if (asked % 2 === 0) return { ...common, userCode: null, code: null };
    const network = `2001:db8:${asked.toString(16)}::1`; // each may have few open requests
    const response = await orGone(askForKey(server, {}, { 'x-forwarded-for': network }));
    return response && { ...common, userCode: response.body.user_code, code: response.body.device_code };
  }

  /** Null: gone. */
  async function decide(server: ServerProcess, request: Request): Promise<number | null> {
    const user = await userHeaders(ownerOf(request.name));
    const decision = { name: request.name, scopes: ['read'], expiresInDays: 1 };
    const { userCode } = request;
    const sent = async (): Promise<Pick<Answer, 'status' | 'body'>> => {
      if (userCode !== null) return askAsPerson(server, 'decision', { userCode, approve: true, ...decision }, user);
      const page = (client as Registered).page();
      const response = await makeForConnection(server, page, user, decision);
      return { status: response.status, body: await response.json() };
    };
    const response = await orGone(sent());
    if (response?.status !== 200) return response?.status ?? null;
    request.isDecided = true;
    if (userCode === null) request.code = new URL(response.body.location).searchParams.get('code');
    return 200;
  }

  const redeem = async (
    server: ServerProcess,
    { userCode, code }: Request,
  ): Promise<{ status: number; body: Record<string, unknown> }> =>
    userCode === null ? (client as Registered).redeem(code ?? '', {}, {}, server) : pollForKey(server, code ?? '');

  async function work(server: ServerProcess, name: string): Promise<void> {
    for (let turn = 0; ; turn += 1) {
      const request = await ask(server, `${name}-${turn}`);
      if (request === null) return;
      all.push(request);
      const status = await decide(server, request);
      if (status === null) return;
      if (status !== 200) faults.push(`${request.name}: a decision responded ${status}`);
      request.redeemed = 'unknown';
      const got = await orGone(redeem(server, request));
      if (got === null) return;
      if (got.status !== 200) faults.push(`${request.name}: the first redemption responded ${got.status}`);
      request.redeemed = 'yes';
      request.key = String(got.body.access_token);
      keys += 1;
    }
  }

  /** What a restarted server says of what was under way. */
  async function settle(server: ServerProcess, request: Request): Promise<void> {
    const { name, userCode } = request;
    if (!request.isDecided && userCode === null) return; // nobody has the code
    if (!request.isDecided) {
      const { body } = await redeem(server, request);
      request.redeemed = body.access_token === undefined ? 'no' : 'yes';
      if (request.redeemed === 'yes') request.key = String(body.access_token);
      else if (body.error !== 'authorization_pending') faults.push(`${name}: undecided, but ${JSON.stringify(body)}`);
      else if ((await decide(server, request)) !== 200) faults.push(`${name}: can't be decided after a kill`);
    }
    const { status, body } = await redeem(server, request);
    const isTaken = body.error === 'invalid_grant';
    if (request.redeemed === 'yes' && !isTaken) faults.push(`${name}: handed out twice`);
    if (request.redeemed === 'no' && status !== 200) faults.push(`${name}: decided, but ${JSON.stringify(body)}`);
    if (request.redeemed === 'unknown' && status !== 200 && !isTaken) faults.push(`${name}: ${JSON.stringify(body)}`);
    if (status === 200) request.key = String(body.access_token);
    if (request.key === null) return;
    const used = await callOver(server.url, 'get_data', {}, { 'x-api-key': request.key });
    if (used.status !== 200) faults.push(`${name}: the key that was handed out is ${used.status}`);
  }

  for (let round = 0; round < rounds; round += 1) {
    const first = all.length;
    const server = await startServer({ runtime, env });
    client ??= await register(server);
    const before = keys;
    const wanted = KEYS_MIN + Math.floor(Math.random() * (KEYS_MAX - KEYS_MIN));
    const workers = Array.from({ length: ASKERS }, (_, n) => work(server, `r${round}-${n}`));
    while (keys < before + wanted) await Bun.sleep(1);
    await Bun.sleep(Math.random() * LIFE_MS_MAX);
    await server.kill();
    await Promise.all(workers);
    await using again = await startServer({ runtime, env });
    const left = all.slice(first);
    unanswered += left.filter(({ isDecided, redeemed }) => !isDecided || redeemed === 'unknown').length;
    for (const request of left) await settle(again, request);
  }
  return { requests: all.length, unanswered, faults: [...faults, ...(await countFaults(url, all))] };
}

/** One for each asker, so that nobody has too many keys. */
const ownerOf = (name: string): string => name.slice(0, name.lastIndexOf('-'));

/** At most one key of each name, exactly one where it was handed out, and one event of its creation. */
async function countFaults(url: string, all: readonly Request[]): Promise<string[]> {
  const rows = await executeAt(
    url,
    `SELECT name, count(*) AS made,
sum((SELECT count(*) FROM key_events WHERE key_id = api_keys.id AND kind = 'created')) AS created
FROM api_keys GROUP BY name`,
  );
  const made = new Map(rows.map(({ name, ...counts }) => [String(name), counts]));
  return all.flatMap(({ name, key, redeemed }) => {
    const counts = made.get(name);
    if (counts === undefined) return key === null && redeemed === 'no' ? [] : [`${name}: no key`];
    return counts.made === 1 && counts.created === 1 ? [] : [`${name}: ${JSON.stringify(counts)}`];
  });
}

const ROUNDS = 6;

test(`${ROUNDS} kills while people decide and programs and clients fetch their keys: each decision is one key at most`, async () => {
  const { requests, unanswered, faults } = await handingOutRounds(ROUNDS, USUAL_RUNTIME);
  expect(faults).toEqual([]);
  expect(unanswered).toBeGreaterThan(ROUNDS);
  expect(requests).toBeGreaterThan(unanswered);
}, 180_000);
