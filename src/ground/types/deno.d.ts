// Declares the parts of Deno that main.deno.ts uses, because the type check otherwise has Bun's types.

declare namespace Deno {
  interface ServeOptions {
    hostname: string;
    port: number;
    cert?: string;
    key?: string;
    /** On abort the server and all its connections close. */
    signal: AbortSignal;
    onListen(): void;
  }
  interface HttpServer {
    readonly addr: { readonly port: number };
    /** Stops accepting; resolves when every request under way has its response. */
    shutdown(): Promise<void>;
  }
  type Handler = (request: Request, info: { remoteAddr: { hostname: string } }) => Promise<Response>;
  /** Throws if the address can't be listened on. */
  function serve(options: ServeOptions, handler: Handler): HttpServer;

  /** The command-line arguments after the program. */
  const args: readonly string[];
  const env: { get(name: string): string | undefined };
  /** Writes some of the bytes and resolves to how many. */
  const stdout: { write(bytes: Uint8Array): Promise<number> };
  const stderr: { writeSync(bytes: Uint8Array): number };
  let exitCode: number;
  function memoryUsage(): { readonly rss: number };
  function addSignalListener(signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP', handler: () => void): void;
  function exit(code: number): never;
}
