// The two clients that check keys from memory, each in a process of its own that answers a line of JSON with one: on
// Python, and in TypeScript, as the package has it built, on Node and Bun.

import { join } from 'node:path';
import { decided } from './checked-service.ts';
import { ROOT } from './documents.ts';
import { temporaryFolder } from './folder.ts';
import type { Service } from './service.ts';

/** Programs that clients run on. */
export const CLIENTS = ['python3', 'node', 'bun'] as const;
type Program = (typeof CLIENTS)[number];

/** Checks `key`; or each of `keys` so many `times`, and says how long one takes; or closes. */
export type Asked =
  | { readonly key: string; readonly scopes?: readonly string[]; readonly cost?: number }
  | { readonly keys: readonly string[]; readonly times: number }
  | { readonly close: true };

export interface VerifierProcess {
  readonly pid: number;
  /** One question at a time. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
  ask(asked: Asked): Promise<any>;
  /** Asks until the answer isn't 503. */
  // biome-ignore lint/suspicious/noExplicitAny: the same
  decided(asked: Asked): Promise<any>;
  /** Has no more questions. Resolves with the exit code when it has ended by itself. */
  end(): Promise<number>;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<void>;
}

const PYTHON = `
import json, sys, time
sys.path.insert(0, sys.argv[1])
from verifier import KeyVerifier
verifier = KeyVerifier(*sys.argv[2:5])
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

const SCRIPT = `
import { createInterface } from 'node:readline';
import { createVerifier } from './verifier.js';
const [url, id, key] = process.argv.slice(2);
const verifier = createVerifier({ url, id, key });
async function answerTo({ close, times, keys, key, ...demand }) {
  if (close) return (await verifier.close()) ?? null;
  if (!times) return verifier.verify(key, demand);
  const begunMs = performance.now();
  let good = 0;
  for (let time = 0; time < times; time += 1) for (const one of keys) good += Number((await verifier.verify(one)).ok);
  return { good, us: ((performance.now() - begunMs) * 1000) / times / keys.length };
}
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answerTo(JSON.parse(line))) + '\\n');
}
`;

/** A folder with the script, and the client as the package has it. */
async function scriptFolder(): Promise<string> {
  const folder = temporaryFolder();
  const entrypoints = [join(ROOT, 'src/start/package/verifier.ts')];
  await Bun.build({ entrypoints, outdir: folder, target: 'node' });
  await Bun.write(join(folder, 'package.json'), '{"type":"module"}');
  await Bun.write(join(folder, 'script.js'), SCRIPT);
  return folder;
}

async function commandOf(program: Program): Promise<string[]> {
  const path = program === 'bun' ? process.execPath : (Bun.which(program) ?? program);
  if (program === 'python3') return [path, '-c', PYTHON, join(ROOT, 'tests/recipes')];
  return [path, join(await scriptFolder(), 'script.js')];
}

/** Starts a client of the server at `url`. `env`: beside its usual environment. */
export async function startVerifier(
  program: Program,
  url: string,
  { id, key }: Service,
  env: Readonly<Record<string, string>> = {},
): Promise<VerifierProcess> {
  const child = Bun.spawn([...(await commandOf(program)), url, id, key], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
    stdin: 'pipe',
    stdout: 'pipe',
  });
  const lines = linesOf(child.stdout);
  async function ask(asked: Asked) {
    child.stdin.write(`${JSON.stringify(asked)}\n`);
    child.stdin.flush();
    return JSON.parse((await lines.next()).value ?? 'null');
  }
  return {
    pid: child.pid,
    ask,
    decided: (asked) => decided(() => ask(asked)),
    async end() {
      child.stdin.end();
      return child.exited;
    },
    signal: (name) => child.kill(name),
    async kill() {
      child.kill('SIGKILL');
      await child.exited;
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
