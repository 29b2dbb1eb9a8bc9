// What belongs to the runtime that runs this, Bun or Deno, for code that has to work on both.

export const thisRuntime = () => ('Deno' in globalThis ? import('./main.deno.ts') : import('./main.ts'));
