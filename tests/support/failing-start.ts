// A start that must fail, in this process: what ends a process only ends the start here.

import { runtime } from '../../src/main.ts';
import { start } from '../../src/start/server.ts';
import { folderWith } from './folder.ts';
import { type Runtime, runToExit } from './server-process.ts';

class Exit extends Error {
  constructor(readonly code: number) {
    super('the process would have ended');
  }
}

type Env = Readonly<Record<string, string>>;

/** What a start with this environment writes before it ends, and its exit code. */
export async function failingStart(env: Env): Promise<{ code: number; stderr: string; stdout: string }> {
  let stderr = '';
  let stdout = '';
  await using left = new AsyncDisposableStack(); // that the end of a process would close
  const starting = start({
    ...runtime,
    env: { PORT: '0', DATABASE_URL: `file:${folderWith({})}/keys.db`, ...env } as typeof runtime.env,
    serve(options) {
      const server = runtime.serve(options);
      left.defer(() => server.kill());
      return server;
    },
    async writeOut(chunk) {
      stdout += new TextDecoder().decode(chunk);
    },
    writeErr(text) {
      stderr += text;
    },
    onSignal() {},
    onExit: () => () => {},
    onStrayError() {},
    exit(code) {
      throw new Exit(code);
    },
  });
  const code = await starting.then(
    () => null,
    (error: unknown) => {
      if (error instanceof Exit) return error.code;
      throw error;
    },
  );
  if (code === null) throw new Error('the server started');
  return { code, stderr, stdout };
}

/** The same on a runtime: on Deno, which is another program, as a process. */
export const failingStartOn = (runtime: Runtime, env: Env) =>
  runtime === 'deno' ? runToExit({ runtime, env }) : failingStart(env);
