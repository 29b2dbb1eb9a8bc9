// What a careless change could do to a decision that keys, people or data depend on: one line each.

import { API } from './api.ts';
import { CALLS } from './calls.ts';
import { KEYS } from './keys.ts';
import { MCP } from './mcp.ts';
import { SIGNIN } from './signin.ts';
import { START } from './start.ts';
import { STORE } from './store.ts';
import { USES } from './uses.ts';
import { WEB } from './web.ts';

/** Of one file. */
export interface Mutations {
  readonly file: string;
  /** Those that should notice, as `bun test` takes them. */
  readonly tests: readonly string[];
  readonly changes: readonly (readonly [name: string, from: string, to: string])[];
}

export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly tests: readonly string[];
}

export const MUTATIONS: readonly Mutation[] = [CALLS, KEYS, USES, STORE, SIGNIN, WEB, API, MCP, START]
  .flat()
  .flatMap(({ file, tests, changes }) => changes.map(([name, from, to]) => ({ name, file, from, to, tests })));
