// The two clients that check keys from memory, each in a process of its own that answers a line of JSON with one: on
// Python, and in TypeScript, as the package has it built, on Node and Bun.

import { join } from 'node:path';
import { linesOf } from '../runner/reader.ts';
import { decided } from './checked-service.ts';
import { ROOT } from './documents.ts';
import { temporaryFolder } from './folder.ts';
import { denoPath } from './server-process.ts';
import type { Service } from './service.ts';
import type { Json } from './test-app.ts';

/** Programs that clients run on, one for each client first. */
export const CLIENTS = ['python3', 'bun', 'node', 'deno'] as const;
type Program = (typeof CLIENTS)[number];

/** Those that are here. */
export const PROGRAMS = CLIENTS.filter((program) => pathOf(program) !== null);

function pathOf(program: Program): string | null {
  if (program === 'bun') return process.execPath;
  if (program !== 'deno') return Bun.which(program);
  return denoPath();
}

/**
 * Checks `key`, on Python by `verify_token` if `asToken`; or each of `keys` so many `times`, and says how long one
 * takes; or closes.
 */
export type Asked =
  | { readonly key: string; readonly scopes?: readonly string[]; readonly cost?: number; readonly asToken?: boolean }
  | { readonly keys: readonly string[]; readonly times: number }
  | { readonly close: true };

export type VerifierProcess = Awaited<ReturnType<typeof startVerifier>>;

/** What the client in Python imports of the SDK, which is not here. */
export const WITHOUT_MCP = `import sys, types
for name in ("mcp", "mcp.server", "mcp.server.auth", "mcp.server.auth.provider"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["mcp.server.auth.provider"].AccessToken = dict
`;

const PYTHON = `
import asyncio, json, logging, sys, threading, time
logging.disable()
sys.path.insert(0, sys.argv[1])
${WITHOUT_MCP}from concurrent.futures import ThreadPoolExecutor
from verifier import KeyVerifier, Unavailable
verifier, lock, loop = KeyVerifier(*sys.argv[2:5]), threading.Lock(), asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
def answer_to(asked):
    if asked.get("close"):
        return verifier.close()
    if asked.get("times"):
        begun = time.perf_counter()
        good = sum(verifier.verify(key).ok for _ in range(asked["times"]) for key in asked["keys"])
        return {"good": good, "us": (time.perf_counter() - begun) * 1e6 / asked["times"] / len(asked["keys"])}
    return verifier.verify(asked["key"], asked.get("scopes", ()), asked.get("cost", 1))._asdict()
def say(number, answer):
    line = json.dumps([number, answer], default=dict)
    with lock:
        print(line, flush=True)
async def as_token(number, asked):
    try:
        say(number, {"ok": await verifier.verify_token(asked["key"]) is not None})
    except Unavailable as error:
        say(number, error.refused._asdict())
with ThreadPoolExecutor(200) as pool:
    for number, asked in map(json.loads, sys.stdin):
        if asked.get("asToken"):
            asyncio.run_coroutine_threadsafe(as_token(number, asked), loop)
        else:
            pool.submit(lambda number=number, asked=asked: say(number, answer_to(asked)))
`;

const SCRIPT = `
import process from 'node:process';
import { createInterface } from 'node:readline';
import { createVerifier } from './verifier.js';
const [url, id, key] = process.argv.slice(2);
const verifier = createVerifier({ url, id, key, onError: () => undefined });
async function answerTo({ close, times, keys, key, asToken, ...demand }) {
  if (close) return (await verifier.close()) ?? null;
  if (!times) return verifier.verify(key, demand);
  const begunMs = performance.now();
  let good = 0;
  for (let time = 0; time < times; time += 1) for (const one of keys) good += Number((await verifier.verify(one)).ok);
  return { good, us: ((performance.now() - begunMs) * 1000) / times / keys.length };
}
async function work(number, asked) {
  process.stdout.write(JSON.stringify([number, await answerTo(asked)]) + '\\n');
}
for await (const line of createInterface({ input: process.stdin })) void work(...JSON.parse(line));
`;

/** A folder with a script, and the client as the package has it. */
export async function scriptFolder(script: string): Promise<string> {
  const folder = temporaryFolder();
  const entrypoints = [join(ROOT, 'src/doors/services/verifier.ts')];
  await Bun.build({ entrypoints, outdir: folder, target: 'node' });
  await Bun.write(join(folder, 'package.json'), '{"type":"module"}');
  await Bun.write(join(folder, 'script.js'), script);
  return folder;
}

/** Runs a script that knows the client; on Python its first argument is the folder of that. */
export async function commandOf(program: Program, script: string): Promise<string[]> {
  const path = pathOf(program) ?? program;
  if (program === 'python3') return [path, '-c', script, join(ROOT, 'tests/recipes')];
  return [path, ...(program === 'deno' ? ['run', '-A'] : []), join(await scriptFolder(script), 'script.js')];
}

/** Starts a client of the server at `url`. `env`: beside its usual environment. */
export async function startVerifier(
  program: Program,
  url: string,
  { id, key }: Service,
  env: Readonly<Record<string, string>> = {},
) {
  const child = Bun.spawn([...(await commandOf(program, program === 'python3' ? PYTHON : SCRIPT)), url, id, key], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
    stdin: 'pipe',
    stdout: 'pipe',
  });
  const answers: ((answer: unknown) => void)[] = [];
  void read();
  async function read(): Promise<void> {
    for await (const line of linesOf(child.stdout)) {
      const [number, answer] = JSON.parse(line);
      answers[number]?.(answer);
    }
  }
  /** Several may be under way. */
  function ask(asked: Asked): Promise<Json> {
    child.stdin.write(`${JSON.stringify([answers.length, asked])}\n`);
    child.stdin.flush();
    return new Promise((resolve) => answers.push(resolve));
  }
  return {
    pid: child.pid,
    ask,
    /** Asks until the answer isn't 503. */
    decided: (asked: Asked): Promise<Json> => decided(() => ask(asked)),
    /** Has no more questions. Resolves with the exit code when it has ended by itself. */
    async end() {
      child.stdin.end();
      return child.exited;
    },
    signal: (name: NodeJS.Signals) => child.kill(name),
    async kill() {
      child.kill('SIGKILL');
      await child.exited;
    },
  };
}
