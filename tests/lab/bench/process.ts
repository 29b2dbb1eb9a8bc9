// Servers under load, each a process of its own that says on stderr where it listens.

import { closeSync, existsSync, openSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';

export type Process = Awaited<ReturnType<typeof startProcess>>;

interface ProcessOptions {
  /** For messages. */
  readonly name: string;
  /** What runs: Bun with a script, or a program. */
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a server, with its stdout in a file, and resolves once it listens. Throws with its stderr if it doesn't. */
export async function startProcess({ name, command, env = {} }: ProcessOptions) {
  const folder = temporaryFolder();
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'a'); // appending, so that it can be emptied under way
  const child = Bun.spawn([...command], {
    cwd: folder, // no .env there
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', PORT: '0', ...env }, // Bun caches in HOME
    stdin: 'ignore',
    stdout: log,
    stderr: 'pipe',
  });
  closeSync(log);
  const killIt = () => child.kill('SIGKILL');
  process.on('exit', killIt);
  void child.exited.then(() => process.off('exit', killIt));
  let errorText = '';
  const url = await listeningAt(child.stderr, name, (text) => {
    errorText += text;
  });

  /** SIGTERM; resolves with what it logged. */
  async function stop(): Promise<string> {
    child.kill('SIGTERM');
    await child.exited;
    return readFileSync(logFile, 'utf8');
  }

  return {
    name,
    url,
    pid: child.pid,
    /** Resident memory now. */
    residentMb: () => residentMb(child.pid),
    /** Processor time so far, of all its threads. NaN on systems without /proc. */
    cpuUs: () => cpuUs(child.pid),
    /** What it has written on stderr so far. */
    errorText: () => errorText,
    /** Empties its log, which at full speed grows by a gigabyte a minute. */
    emptyLog: () => truncateSync(logFile),
    stop,
    async [Symbol.asyncDispose]() {
      killIt();
      await child.exited;
      truncateSync(logFile);
    },
  };
}

/** The address a server announces. What it writes afterwards is read too, so that it never blocks. */
export function listeningAt(
  stderr: ReadableStream<Uint8Array>,
  name: string,
  onText: (text: string) => void = () => {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    void (async () => {
      const decoder = new TextDecoder();
      let text = '';
      let isListening = false;
      for await (const chunk of stderr) {
        const more = decoder.decode(chunk, { stream: true });
        onText(more);
        if (isListening) continue;
        text += more;
        const url = /listening on (\S+)\n/.exec(text)?.[1];
        isListening = url !== undefined;
        if (url) resolve(url);
      }
      reject(new Error(`${name} did not start: ${text}`));
    })();
  });
}

function residentMb(pid: number): number {
  const { stdout } = Bun.spawnSync(['ps', '-o', 'rss=', '-p', String(pid)]);
  return Number(stdout.toString().trim()) / 1024;
}

/** The kernel counts in hundredths of a second (proc_pid_stat(5): utime and stime). */
const TICK_US = 10_000;

function cpuUs(pid: number): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return Number.NaN;
  const [, fields = ''] = readFileSync(file, 'utf8').split(') '); // the name before may hold spaces
  const [user, system] = fields.split(' ').slice(11, 13);
  return (Number(user) + Number(system)) * TICK_US;
}
