// What belongs to the runtime that runs this, Bun or Deno, for code that has to work on both.

export function thisRuntime() {
  if ('Deno' in globalThis) return import('./main.deno.ts');
  if ('Bun' in globalThis) return import('./main.ts');
  throw new Error('mcp-key-server runs on Bun and on Deno, and this is neither');
}
