// The server as people run it: a process of its own, with an environment of its own.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { scripts } from '../../package.json';
import { ROOT } from './documents.ts';
import { diskFolder, temporaryFolder } from './folder.ts';
import { waitFor } from './wait-for.ts';

export type Runtime = 'bun' | 'deno';

/** `SERVER_RUNTIME=deno bun test tests/process` runs every test that starts a server against Deno. */
export const USUAL_RUNTIME: Runtime = process.env.SERVER_RUNTIME === 'deno' ? 'deno' : 'bun';

export type ServerProcess = Awaited<ReturnType<typeof startServer>>;

/** The whole lines of its log so far. */
// biome-ignore lint/suspicious/noExplicitAny: tests read lines of any event
export const logOf = ({ stdout }: Pick<ServerProcess, 'stdout'>): any[] =>
  stdout()
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line));

/** Resolves when it has opened its database, which may be after it listens. */
export const untilOpen = ({ url }: ServerProcess): Promise<number> =>
  waitFor(async () => (await fetch(`${url}/mcp/health`)).ok);

export interface ServerOptions {
  readonly env?: Record<string, string>;
  readonly folder?: string;
  readonly runtime?: Runtime;
  /** Flags of the script to leave out when Deno is started. */
  readonly without?: readonly string[];
  /** The source to run; this repository's unless given. */
  readonly root?: string;
  /** What to run instead of the source: a program and its arguments. */
  readonly command?: readonly string[];
  /** Modules to load before the server. */
  readonly preload?: readonly string[];
  /** Takes what is written to stdout, which is then not kept: for servers that write a lot. */
  readonly onStdout?: (chunk: string) => void;
}

/** Starts the server on a free port and resolves once it listens. Throws with its stderr if it doesn't. */
export async function startServer(options: ServerOptions = {}) {
  const server = spawnServer(options);
  const url = await Promise.race([
    server.listening,
    server.exited.then((code) => {
      throw new Error(`the server ended with ${code}: ${server.stderr()}`);
    }),
  ]);
  /** SIGKILL, then gone. */
  async function kill(): Promise<void> {
    server.process.kill('SIGKILL');
    await server.exited;
  }
  return {
    url: url + (options.env?.BASE_PATH ?? ''),
    pid: server.process.pid,
    /** The working folder, in which the default ./data lies. */
    folder: server.folder,
    /** What it has written to stdout so far. */
    stdout: server.stdout,
    stderr: server.stderr,
    exited: server.exited,
    /** SIGTERM, then the exit code. */
    async stop() {
      server.process.kill('SIGTERM');
      return server.exited;
    },
    kill,
    signal: (name: NodeJS.Signals) => server.process.kill(name),
    [Symbol.asyncDispose]: kill,
  };
}

/** Runs the server until it ends by itself, for starts that must fail. */
export async function runToExit(options: ServerOptions): Promise<{ code: number; stderr: string; stdout: string }> {
  const server = spawnServer(options);
  const code = await Promise.race([server.exited, server.listening.then(() => 'listening' as const)]);
  if (code === 'listening') {
    server.process.kill('SIGKILL');
    await server.exited;
    throw new Error('the server started');
  }
  return { code, stderr: server.stderr(), stdout: server.stdout() };
}

/** The path of Deno itself: the package's own launcher does not pass signals on. */
export const denoPath = (): string =>
  (createRequire(import.meta.url)('deno/install_api.cjs') as { runInstall(): string }).runInstall();

/** What runs a file on a runtime, with all rights. */
export const runnerOf = (runtime: Runtime): readonly string[] =>
  runtime === 'deno' ? [denoPath(), 'run', '--allow-all'] : [process.execPath, '--no-env-file'];

const COMMANDS: Readonly<Record<Runtime, (root: string, preload: readonly string[]) => string[]>> = {
  bun: (root, preload) => [
    process.execPath,
    ...preload.flatMap((module) => ['--preload', module]),
    join(root, 'src/main.ts'),
  ],
  // The command of the script itself, so that its permissions are the ones tested.
  deno(root) {
    const words = scripts['start:deno'].split('exec deno ')[1]?.split(' ') ?? [];
    return [denoPath(), ...words.map((word) => word.replace(/^(?:--import-map=)?(?=src\/)/, `$&${root}/`))];
  },
};

/** The command that starts the server of this repository. */
export const commandOf = (runtime: Runtime): string[] => COMMANDS[runtime](ROOT, []);

function spawnServer({
  env = {},
  root = ROOT,
  runtime = USUAL_RUNTIME,
  folder = runtime === 'deno' ? diskFolder() : temporaryFolder(),
  without = [],
  preload = [],
  command = COMMANDS[runtime](root, preload),
  onStdout,
}: ServerOptions) {
  const words = command.filter((word) => !without.includes(word));
  const child = Bun.spawn(words, {
    cwd: folder, // no .env there
    env: { PATH: process.env.PATH ?? '', PORT: '0', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const stdout = onStdout === undefined ? collect(child.stdout) : passOn(child.stdout, onStdout);
  let found: (url: string) => void = () => {};
  const listening = new Promise<string>((resolve) => {
    found = resolve;
  });
  const stderr = collect(child.stderr, (text) => {
    const url = /listening on (\S+)\n/.exec(text)?.[1];
    if (url) found(url);
  });
  const exited = Promise.all([child.exited, stdout.done, stderr.done]).then(([code]) => code);
  return { process: child, folder, stdout: stdout.text, stderr: stderr.text, listening, exited };
}

function passOn(stream: ReadableStream<Uint8Array>, onChunk: (chunk: string) => void) {
  const done = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) onChunk(decoder.decode(chunk, { stream: true }));
  })();
  return { text: () => '', done };
}

function collect(stream: ReadableStream<Uint8Array>, onText: (all: string) => void = () => {}) {
  let all = '';
  const done = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      all += decoder.decode(chunk, { stream: true });
      onText(all);
    }
  })();
  return { text: () => all, done };
}

/** Resident memory of a process. Linux only. */
export const residentMbOf = (pid: number): number => memoryMb(pid, /^VmRSS:\s+(\d+) kB$/m);

/** The most that was resident at any time. */
export const peakResidentMbOf = (pid: number): number => memoryMb(pid, /^VmHWM:\s+(\d+) kB$/m);

const memoryMb = (pid: number, line: RegExp): number =>
  Number(line.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
