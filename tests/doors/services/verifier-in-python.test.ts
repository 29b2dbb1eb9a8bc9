// The client in Python that operators copy, in a process of its own, against real servers behind one address. What it does
// as the one on Node is in verifier-elsewhere.test.ts.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { type MadeKey, type Servers, startServers } from '../../support/checked-service.ts';
import { run } from '../../support/command.ts';
import { ROOT } from '../../support/documents.ts';
import { everything, rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { startVerifier, type VerifierProcess, WITHOUT_MCP } from '../../support/verifier-process.ts';
import { waitFor } from '../../support/wait-for.ts';

/** Where the client is. */
const RECIPES = join(ROOT, 'tests/recipes');
const BOUND_MS = 1000;
/** What a busy machine, and a Python that warns of forks beside threads, may say. */
const MAY_SAY = /.*(?:DeprecationWarning|responses come later than the bound allows).*\n/g;
const python = Bun.which('python3');

test('it has at most 260 lines', async () => {
  const text = await Bun.file(join(RECIPES, 'verifier.py')).text();
  expect(text.split('\n').length - 1).toBeLessThanOrEqual(260);
});

describe.skipIf(python === null)('with python3', () => {
  let at: Servers;
  let service: MadeKey;
  let client: VerifierProcess;
  beforeAll(async () => {
    at = await startServers('embedded', ['bun', 'bun']);
    service = await at.createKey('operator', ['introspect']);
    client = await startVerifier('python3', at.url, service);
  }, 180_000);
  afterAll(async () => {
    await client.end();
    await at[Symbol.asyncDispose]();
  });

  /** Runs lines of Python that know KeyVerifier. */
  const pythonRun = (lines: string) =>
    run([python ?? '', '-c', `from verifier import KeyVerifier\n${lines}`], {
      cwd: temporaryFolder(),
      env: { PYTHONPATH: RECIPES, PYTHONDONTWRITEBYTECODE: '1' },
    });
  /** Runs lines of Python with a `verifier`, which is closed after them. */
  const withVerifier = (lines: string) =>
    pythonRun(
      `verifier = KeyVerifier(*${JSON.stringify([at.url, service.id, service.key])})\n${lines}\nverifier.close()`,
    );

  test('it needs nothing but the standard library', async () => {
    const { stdout, stderr } = await pythonRun(`import ast, sys, verifier
tree = ast.parse(open(verifier.__file__).read()).body
named = [name.name for one in tree if isinstance(one, ast.Import) for name in one.names]
named += [one.module for one in tree if isinstance(one, ast.ImportFrom)]
print(len(named) > 5, [name for name in named if name.split(".")[0] not in sys.stdlib_module_names])`);
    expect({ stdout, stderr }).toEqual({ stdout: 'True []\n', stderr: '' });
  });

  const [KEYS, CHECKS] = [200, everything ? 100 : 40];
  test(`of ${CHECKS} checks of each of ${KEYS} keys few are questions`, async () => {
    await using own = await startServers('embedded', ['bun'], { REVOCATION_LAG_MAX_MS: '60000' }); // no news is late
    const asks = await startVerifier('python3', own.url, await own.createKey('operator', ['introspect']));
    const keys: string[] = [];
    for (let made = 0; made < KEYS; made += 1) keys.push((await own.createKey('carol')).key);
    expect((await asks.ask({ keys, times: CHECKS })).good).toBe(KEYS * CHECKS);
    // A lease is of 31 units, and with a quarter left the next one is asked for.
    expect(own.questions()).toBeLessThanOrEqual(KEYS * (1 + Math.ceil(CHECKS / 25)));
    await asks.end();
  }, 180_000);

  test('a key is held to its limit', async () => {
    const { key } = await at.createKey('bob', ['read'], { rateLimit: { requests: 64, window: '1h' } });
    let last = await client.decided({ key });
    for (let calls = 0; calls < 400 && last.ok; calls += 1) last = await client.decided({ key });
    expect(last).toMatchObject({ status: 429, code: 'rate_limited' });
  }, 180_000);

  test("an owner's quota that is used up is said to be of all keys", async () => {
    const { key } = await at.createKey('lena');
    await at.keys('owner', 'lena', '--quota', '2/day');
    let last = await client.ask({ key });
    await waitFor(async () => {
      last = await client.ask({ key });
      return last.status === 429;
    });
    const detail = 'The quota of all your keys together is used up; try again when its period is over';
    expect(last).toMatchObject({ code: 'quota_exceeded', detail, of: 'owner' });
  }, 180_000);

  test('keys that come and go leave nothing behind', async () => {
    const keys: string[] = [];
    for (let owner = 0; owner < 8; owner += 1) keys.push((await at.createKey(`guest ${owner}`)).key);
    const { stdout } = await pythonRun(
      `import json, time, urllib.request, verifier
verifier.KEYS_MAX = 2
client = KeyVerifier(${JSON.stringify(at.url)}, "${service.id}", "${service.key}")
for key in ${JSON.stringify(keys)}:
    while not client._answers:
        client.verify(key)
    as_json = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(client._url + "/revoke", json.dumps([key]).encode(), as_json))
    while client._answers:
        time.sleep(0.01)
print(len(client._by_mark) + len(client._holders) <= 5 * verifier.KEYS_MAX)
client.close()`,
    );
    expect(stdout).toBe('True\n');
  }, 180_000);

  test('a cost that is none, from memory too, lets nobody in, and is logged once', async () => {
    const { key } = await at.createKey('grace');
    const costs = '0, -5, 0.5, 1001, 1.5, float("nan"), "2", 10**9';
    const { stdout, stderr } = await withVerifier(`while not verifier.verify("${key}").ok or not verifier._answers: pass
print({verifier.verify(key, cost=cost).status for key in ("${key}", "a key") for cost in (${costs})})
print(verifier.verify("${key}").ok)`);
    expect({ stdout, stderr: stderr.replaceAll(MAY_SAY, '') }).toEqual({
      stdout: '{503}\nTrue\n',
      stderr: `${at.url}: verify: expected a list of scopes, and a whole cost from 1 to 1000\n`,
    });
  });

  test('what is no key, and no scopes, lets nobody in', async () => {
    const { key: good } = await at.createKey('ida', ['r', 'e', 'a', 'd']);
    const { stdout } = await withVerifier(`KEY, read = "${good}", "read"
for args in [(KEY,), (None, read), (5, read), (KEY, read), (KEY, None)]:
    print(verifier.verify(*args).ok)`);
    expect(stdout).toBe('True\nFalse\nFalse\nFalse\nFalse\n');
  });

  test('a text with characters that no key has is refused, and is in no line of the log', async () => {
    const { stdout, stderr } = await withVerifier(
      `print([verifier.verify("sk_test_" + odd + "0123456789abcdef").status for odd in ("\\ud800", "\\udcff", "é", "\\0")])`,
    );
    expect({ stdout, stderr }).toEqual({ stdout: '[401, 401, 401, 401]\n', stderr: '' });
  });

  test('with an odd URL, no id or no key none is made', async () => {
    const wrong = [
      ['', 'x', 'x'],
      ['127.0.0.1:3000', 'x', 'x'],
      ['https://user:pass@keys.example', 'x', 'x'],
      ['https://keys.example/?a=b', 'x', 'x'],
      ['https://keys.example#a', 'x', 'x'],
      ['http://127.0.0.1:3000', '', 'x'],
      ['http://127.0.0.1:3000', 'x', ''],
    ];
    const { stdout } = await pythonRun(`for args in ${JSON.stringify(wrong)}:
    try: KeyVerifier(*args)
    except ValueError as error: print(error)`);
    expect(stdout).toBe('KeyVerifier: expected an http(s) URL, the id of a key, and the key\n'.repeat(wrong.length));
  });

  test('with another id or key, a key without the scope, or another URL it logs so, once for each path', async () => {
    const lacking = await at.createKey('operator');
    const wrong: [path: string, id: string, key: string, said: string][] = [
      ['', 'x', service.key, '401: id or key is wrong, or the key has ended'],
      ['', service.id, 'sk_test_x', '401: id or key is wrong, or the key has ended'],
      ['', lacking.id, lacking.key, '403: it lacks introspect'],
      ['/mcp', service.id, service.key, '404'],
    ];
    const { stdout, stderr } = await pythonRun(
      `for args in ${JSON.stringify(wrong.map(([path, ...credential]) => [at.url + path, ...credential].slice(0, 3)))}:
    verifier = KeyVerifier(*args)
    print([verifier.verify("a key").status for _ in range(3)])
    verifier.close()`,
    );
    expect(stdout).toBe('[503, 503, 503]\n'.repeat(wrong.length));
    const lines = wrong.flatMap(([path, , , said]) =>
      ['/changes', '/introspect'].map((of) => `${at.url}${path}: POST ${of}: got ${said}`),
    );
    expect(stderr.trim().split('\n').sort()).toEqual(lines.sort());
  });

  test('of an answer that does not end it reads a part, lets nobody in, and says so', async () => {
    const [toSendMib, readMibMax] = [256, 64];
    let sentMib = 0;
    const endless = () => {
      const endMib = sentMib + toSendMib; // or a client that reads on would fill the machine's memory
      return new ReadableStream({
        pull(controller) {
          controller.enqueue(new Uint8Array(1024 * 1024));
          sentMib += 1;
          if (sentMib >= endMib) controller.close();
        },
      });
    };
    using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(endless()) });
    const url = server.url.origin;
    const { stdout, stderr } = await pythonRun(`verifier = KeyVerifier("${url}", "${service.id}", "a key")
print(verifier.verify("a key").status)
verifier.close()`);
    expect(stdout).toBe('503\n');
    expect(stderr).toContain(`${url}: POST /changes: got 200\n`);
    expect(sentMib).toBeLessThan(readMibMax);
  });

  test('a million units of a key within moments are told, and it goes on listening', async () => {
    await using unbound = await startServers('embedded', ['bun'], { RATE_LIMIT_REQUESTS: '0' });
    const service = await unbound.createKey('operator', ['introspect']);
    const busy = await startVerifier('python3', unbound.url, service);
    const { key } = await unbound.createKey('alice');
    const asked = () => unbound.questions();
    for (const begunMs = performance.now(); performance.now() < begunMs + (everything ? 3 : 1) * BOUND_MS; ) {
      await busy.ask({ key, cost: 1000 });
    }
    for (let before = -1; before < asked(); ) {
      before = asked();
      for (let times = 0; times < 20; times += 1) await busy.ask({ key });
    }
    await busy.end();
  }, 180_000);

  test('what it hands out can not be changed', async () => {
    const { key } = await at.createKey('noah');
    const { stdout } = await withVerifier(`found = verifier.verify("${key}", ["read"])
def add(): found.scopes.append("admin")
def put(): found.metadata["plan"] = "pro"
def become(): found.owner = "another"
for change in (add, put, become):
    try:
        change()
    except (AttributeError, TypeError) as error:
        print(type(error).__name__)
print(verifier.verify("${key}", ["admin"]).ok)`);
    expect(stdout).toBe('AttributeError\nTypeError\nAttributeError\nFalse\n');
  });

  // A web server that loads the application first, a queue of tasks, a pool of processes.
  const MADE = [
    [
      'while others are asking',
      'threading.Thread(target=lambda: [verifier.verify(str(n)) for n in range(300)], daemon=True).start()',
    ],
    ['at once', 'pass'],
    ['once it has asked', 'verifier.verify(user)'],
  ] as const;
  test.each(rows(MADE, 1))(
    'a fork of it, made %s, checks from memory as it does',
    async (when, before) => {
      const owner = `olga, ${when}`;
      const { key, id } = await at.createKey(owner);
      const { stdout, stderr } = await withVerifier(`import os, threading, time
user = "${key}"
${before}
def check():
    begun, ahead = time.monotonic(), 0
    while not verifier.verify(user).ok:
        ahead += 1
    slow = time.monotonic() - begun > 3
    time.sleep(0.5)  # the news of a round
    asked, post = [], verifier._post
    verifier._post = lambda path, *more: (asked.append(path), post(path, *more))[1]
    known = sum(verifier.verify(user).ok for _ in range(20))
    print(slow, known, asked.count("/introspect"), flush=True)
children = []
for _ in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        check()
        verifier.close()
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
check()`);
      expect({ stdout, stderr: stderr.replaceAll(MAY_SAY, '') }).toEqual({
        stdout: 'False 20 0\n'.repeat(3),
        stderr: '',
      });
      await waitFor(async () => ((await at.usesOf(owner))[id] ?? 0) > 60); // each told what it let in
    },
    180_000,
  );

  test('a fork that Python does not see, as uWSGI makes them, checks from memory as it does', async () => {
    const { key } = await at.createKey('olaf');
    const { stdout } = await withVerifier(`import ctypes, os, threading, time
print(threading.active_count(), flush=True)
begun, child = time.monotonic(), ctypes.PyDLL(None).fork()
if child == 0:
    good, slow, end = verifier.verify("${key}").ok, time.monotonic() - begun > 3, time.monotonic() + 5
    while verifier.known_for_ms() > 1000 and time.monotonic() < end:
        time.sleep(0.05)
    print(good, slow, verifier.known_for_ms() < 2000, flush=True)
    verifier.close()
    os._exit(0)
os.waitpid(child, 0)`);
    expect(stdout).toBe('1\nTrue False True\n'); // uWSGI can't fork while another thread runs
  }, 180_000);

  test('a fork of one that was closed stays closed', async () => {
    const { key } = await at.createKey('paul');
    const { stdout } = await withVerifier(`import os
verifier.close()
if os.fork() == 0:
    print(verifier.verify("${key}").status, flush=True)
    os._exit(0)
os.wait()`);
    expect(stdout).toBe('503\n');
  });

  test.each(['/changes', '/introspect'])(
    'closed while %s is slow, it lets nobody in later',
    async (slow) => {
      await using own = await startServers('embedded', ['bun'], { REVOCATION_LAG_MAX_MS: '60000' }); // no answer is late
      const { id, key } = await own.createKey('operator', ['introspect']);
      const rose = await own.createKey('rose');
      const [asked, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      own.between = async (path, passOn) => {
        if (path === slow) {
          asked.resolve();
          await closed.promise;
        }
        if (path === '/asked') await asked.promise;
        else if (path === '/closed') closed.resolve();
        else return passOn();
        return new Response();
      };
      const { stdout } = await pythonRun(`import threading, time, urllib.request
verifier, said = KeyVerifier(*${JSON.stringify([own.url, id, key])}), []
check = threading.Thread(target=lambda: said.append(verifier.verify("${rose.key}")))
check.start()
urllib.request.urlopen("${own.url}/asked")
verifier.close()
urllib.request.urlopen("${own.url}/closed")
check.join()
print(said[0].ok, said[0].code if not said[0].ok else "")`);
      expect(stdout).toBe('False store_unavailable\n');
      expect(own.questions()).toBe(slow === '/introspect' ? 1 : 0);
    },
    180_000,
  );

  test('a check that is interrupted leaves no other one waiting', async () => {
    const { key } = await at.createKey('quinn');
    const [asked, interrupted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isHeld = false;
    at.between = async (path, passOn) => {
      if (path === '/introspect') {
        if (!isHeld) await Bun.sleep(150);
        else {
          asked.resolve();
          await interrupted.promise;
        }
      }
      if (path === '/hold') isHeld = true;
      else if (path === '/asked') await asked.promise;
      else if (path === '/interrupted') interrupted.resolve();
      else return passOn();
      return new Response();
    };
    const { stdout } = await withVerifier(`import asyncio, signal, threading, urllib.request
${WITHOUT_MCP}key = "${key}"
async def cancelled():
    first = asyncio.ensure_future(verifier.verify_token(key))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(verifier.verify_token(key))
    first.cancel()
    return await second is not None
print(asyncio.run(cancelled()))
urllib.request.urlopen("${at.url}/hold")
other = "sk_test_" + "0" * 64
caught = threading.Event()
def once(*_):
    if not caught.is_set():
        caught.set()
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, once)
def interrupt(): # again and again: a signal just before the wait for a lock doesn't end that
    urllib.request.urlopen("${at.url}/asked")
    while not caught.wait(0.01):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    verifier.verify(other)
except KeyboardInterrupt:
    print("interrupted")
urllib.request.urlopen("${at.url}/interrupted")
print(verifier.verify(other).status)`);
    at.between = null;
    expect(stdout).toBe('True\ninterrupted\n401\n');
  }, 180_000);

  test('a tool of FastMCP or the MCP SDK learns whose key it is from the access token', async () => {
    const { id, key } = await at.createKey('ulla', ['read']);
    const { stdout } = await withVerifier(`import asyncio, json
${WITHOUT_MCP}print(json.dumps(asyncio.run(verifier.verify_token("${key}"))))
print(asyncio.run(verifier.verify_token("sk_test_" + "0" * 64)))`);
    const [token = '', unknown] = stdout.split('\n');
    expect(JSON.parse(token)).toMatchObject({
      token: key,
      client_id: id,
      scopes: ['read'],
      subject: 'ulla',
      claims: { key_id: id, owner: 'ulla', metadata: {}, parent: null },
    });
    expect(unknown).toBe('None');
  }, 180_000);

  test('under FastMCP a limit is 429 with Retry-After, and a server that is away 503', async () => {
    const { key } = await at.createKey('rosa', ['read'], { rateLimit: { requests: 1, window: '1h' } });
    // As Starlette has it: what authenticates raises, inside of what is added last.
    const { stdout } = await withVerifier(`import asyncio
${WITHOUT_MCP}from fastmcp_service import Refusals
async def request(verifier, expected):
    async def authenticated(scope, receive, send):
        await verifier.verify_token("${key}")
        await send({"type": "http.response.start", "status": 200, "headers": []})
    sent = []
    async def send(message):
        sent.append(message)
    await Refusals(authenticated)({"type": "http"}, None, send)
    if sent[0]["status"] == expected:
        print(expected, sorted(name.decode() for name, value in sent[0]["headers"] if value), sent[1:])
asyncio.run(request(verifier, 200))
for _ in range(2):  # each of the two servers may let one in before it knows of the other's
    asyncio.run(request(verifier, 429))
asyncio.run(request(KeyVerifier("http://127.0.0.1:1", "x", "x"), 503))`);
    const [[good, limited], away] = [stdout.split('\n'), stdout.trim().split('\n').at(-1)];
    expect(good).toBe('200 [] []');
    expect(limited).toStartWith("429 ['cache-control', 'content-type', 'retry-after'] ");
    expect(limited).toContain('rate_limited');
    expect(away).toStartWith("503 ['cache-control', 'content-type', 'retry-after'] ");
  }, 180_000);
});
