// Declares what the type check does not know: parts of Deno, and files that are no TypeScript.

// The parts of Deno that main.deno.ts uses, because the type check otherwise has Bun's types.

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
    /** Rejects when it can accept no more connections. */
    readonly finished: Promise<void>;
    /** Stops accepting; resolves when every request under way has its response. */
    shutdown(): Promise<void>;
  }
  interface HandlerInfo {
    readonly remoteAddr: { readonly hostname: string };
  }
  type Handler = (request: Request, info: HandlerInfo) => Promise<Response>;
  /** Throws if the address can't be listened on. */
  function serve(options: ServeOptions, handler: Handler): HttpServer;

  const args: readonly string[];
  const env: { get(name: string): string | undefined };
  /** Writes some of the bytes and resolves to how many. */
  const stdout: { write(bytes: Uint8Array): Promise<number> };
  const stderr: { writeSync(bytes: Uint8Array): number };
  /** Creates what `fetch` takes as `client`: connections of its own. */
  function createHttpClient(options: { http2: boolean }): { close(): void };
  let exitCode: number;
  function memoryUsage(): { readonly rss: number };
  function addSignalListener(signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP', handler: () => void): void;
  function exit(code: number): never;
}

// Files imported as text (`with { type: 'text' }`), which Bun and Deno both load as a string.

declare module '*.sql' {
  const text: string;
  export default text;
}

declare module '*.css' {
  const text: string;
  export default text;
}

// The dot limits these to our own relative imports: bun-types declares `*.html` as a page to bundle, and untyped `*.js`
// packages must not become text.
declare module '.*.html' {
  const text: string;
  export default text;
}

declare module '.*.js' {
  const text: string;
  export default text;
}

// Only for the declarations of the package: elsewhere the compiler reads the file itself.
declare module '.*/package.json' {
  const manifest: { readonly version: string };
  export default manifest;
}
