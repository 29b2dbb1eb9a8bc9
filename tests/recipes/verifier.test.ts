// The client in Python that operators copy, in a process of its own, against real servers behind one address.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { ENDINGS, lastYesAfter, type Servers, startServers } from '../support/checked-service.ts';

const BOUND_MS = 1000;
/** Answers each line of JSON with one: a check, or `close`. */
const DRIVER = `
import asyncio, json, sys, time
sys.path.insert(0, sys.argv[1])
from verifier import KeyVerifier
verifier = KeyVerifier(sys.argv[2], sys.argv[3], sys.argv[4])
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("close"):
        verifier.close()
        answer = None
    elif asked.get("times"):
        begun = time.perf_counter()
        good = sum(verifier.verify(key).ok for _ in range(asked["times"]) for key in asked["keys"])
        answer = {"good": good, "us": (time.perf_counter() - begun) * 1e6 / asked["times"] / len(asked["keys"])}
    else:
        answer = verifier.verify(asked["key"], asked.get("scopes", ()), asked.get("cost", 1))._asdict()
    print(json.dumps(answer), flush=True)
`;

const python = Bun.which('python3');

interface PythonVerifier {
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
  ask(line: object): Promise<any>;
  end(): Promise<number>;
}

/** One question at a time. */
function startPython(url: string, { id, key }: { id: string; key: string }): PythonVerifier {
  const child = Bun.spawn([python ?? '', '-c', DRIVER, import.meta.dir, url, id, key], {
    stdin: 'pipe',
    stdout: 'pipe',
  });
  const lines = linesOf(child.stdout);
  return {
    async ask(line) {
      child.stdin.write(`${JSON.stringify(line)}\n`);
      child.stdin.flush();
      return JSON.parse((await lines.next()).value ?? 'null');
    },
    async end() {
      child.stdin.end();
      return child.exited;
    },
  };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
      yield text.slice(0, end);
      text = text.slice(end + 1);
    }
  }
}

test('it has at most 200 lines, and needs nothing but the standard library', async () => {
  const text = await Bun.file(join(import.meta.dir, 'verifier.py')).text();
  expect(text.split('\n').length - 1).toBeLessThanOrEqual(200);
  expect(text.match(/^import .*$/gm)?.length).toBe(1);
});

describe.skipIf(python === null)('with python3', () => {
  let at: Servers;
  let client: PythonVerifier;
  beforeAll(async () => {
    at = await startServers('embedded', ['bun', 'bun']);
    client = startPython(at.url, await at.createKey('operator', ['introspect']));
  }, 30_000);
  afterAll(async () => {
    await client.end();
    await at[Symbol.asyncDispose]();
  });

  const questions = (): number => at.asked.get('/introspect') ?? 0;
  /** A machine slower than the bound gets 503, as it should. */
  async function decided(line: object) {
    for (;;) {
      const answer = await client.ask(line);
      if (answer.status !== 503) return answer;
    }
  }

  test('a good key is let in, with who is behind it, and from memory the next time', async () => {
    const { key, id } = await at.createKey('alice', ['read', 'write']);
    const before = questions();
    for (let times = 0; times < 10; times += 1) {
      expect(await decided({ key, scopes: ['write'] })).toMatchObject({
        ok: true,
        key_id: id,
        owner: 'alice',
        name: 'a key',
        scopes: ['read', 'write'],
      });
    }
    expect(questions() - before).toBeLessThan(10);
    expect(await client.ask({ key, scopes: ['admin'] })).toMatchObject({ status: 403, code: 'insufficient_scope' });
    expect(await client.ask({ key: 'x' })).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect(await client.ask({ key: '' })).toMatchObject({ status: 401, code: 'missing_api_key' });
  });

  test('a key is held to its limit', async () => {
    const { key } = await at.createKey('bob', ['read'], { rateLimit: { requests: 64, window: '1h' } });
    let last = await decided({ key });
    for (let calls = 0; calls < 400 && last.ok; calls += 1) last = await decided({ key });
    expect(last).toMatchObject({ status: 429, code: 'rate_limited' });
  }, 30_000);

  test.each(Object.entries(ENDINGS))(
    'a key that is %s is refused within the bound',
    async (_, end) => {
      const made = await at.createKey(`owner of ${Math.random()}`);
      expect((await decided({ key: made.key, scopes: ['read'] })).ok).toBe(true);
      const letsIn = async () => (await client.ask({ key: made.key, scopes: ['read'] })).ok;
      expect(await lastYesAfter(() => end(at, made), letsIn, 1200)).toBeLessThanOrEqual(BOUND_MS);
    },
    30_000,
  );

  test('closed, it has told what it let in, and lets nobody in', async () => {
    const { key } = await at.createKey('zoe');
    await decided({ key });
    await client.ask({ key });
    await client.ask({ close: true });
    expect(await client.ask({ key })).toMatchObject({ ok: false, status: 503 });
  });
});
