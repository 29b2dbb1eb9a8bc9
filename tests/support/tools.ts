// What tests make tools with, and a tool that they steer from outside: it reports and returns when it is told to.

import * as v from 'valibot';
import {
  type Call,
  type ContentBlock,
  defineTool,
  type Guard,
  ok,
  type ToolContent,
  type ToolFacts,
} from '../../src/start/package/index.ts';

/** The server's own, in the order clients see them. */
export const SERVER_TOOLS = [
  'create_api_key',
  'list_api_keys',
  'rotate_api_key',
  'revoke_api_key',
  'delete_api_key',
  'whoami',
  'get_data',
];

/** Lets anybody in. */
export const anyone: Guard<Call> = () => ok({});

export const promptFacts = (name: string, description = name) => ({ name, title: name, description });

export const facts = (name: string, description?: string): ToolFacts => ({
  ...promptFacts(name, description),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
});

/** What a tool without input has beside its `run`. */
export const noInput = (name: string) => ({ ...facts(name), input: v.strictObject({}) });

/** The source of a `run` that responds with `text`, an expression. */
export const saying = (text: string): string => `() => ok({ content: [{ type: 'text' as const, text: ${text} }] })`;

/** A tool file with one tool, which anybody may call. `run` and `input` are source, too. */
export const toolFile = (name: string, run = saying("'hello'"), input = 'v.strictObject({})'): string => `
import { defineTool, ok, v } from 'mcp-key-server';

export default () =>
  defineTool(() => ok({}), {
    name: '${name}', title: 'A tool', description: 'A tool.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: ${input},
    run: ${run},
  });
`;

/** Content that JSON has no form for; what a tool's author may return by mistake. */
export const NOT_JSON: ToolContent = { content: [{ type: 'text', text: 'x', _meta: { count: 1n } }] };

/** A tool for one call. */
export function steeredTool({ name = 'steered', timeoutMs }: { name?: string; timeoutMs?: number } = {}) {
  const running = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<unknown>();
  let report: (progress: number, total?: number, message?: string) => void = () => {};
  let isAborted = false;
  const tool = defineTool(anyone, {
    ...facts(name),
    ...(timeoutMs !== undefined && { timeoutMs }),
    input: v.strictObject({}),
    async run(_input, { progress, signal }) {
      report = progress;
      signal.addEventListener('abort', () => {
        isAborted = true;
        aborted.resolve(signal.reason);
      });
      running.resolve();
      await finished.promise;
      return ok({ content: [{ type: 'text', text: 'done' }] });
    },
  });
  return {
    tool,
    /** Resolves once the tool runs. */
    running: running.promise,
    report: (...progress: Parameters<typeof report>) => report(...progress),
    /** Has it return `done`. */
    finish: () => finished.resolve(),
    /** Resolves with the reason when the tool's signal aborts. */
    aborted: aborted.promise,
    /** True once its signal aborted. */
    isAborted: () => isAborted,
  };
}

/** One of each kind, with all that each may have. */
export const CONTENT_BLOCKS: ContentBlock[] = [
  {
    type: 'text',
    text: 'a "quoted" line\nand another \u2028',
    annotations: { audience: ['user'], priority: 0.5, lastModified: '2026-01-02T03:04:05Z' },
    _meta: { a: [1, null] },
  },
  { type: 'image', data: 'aGk=', mimeType: 'image/png' },
  { type: 'audio', data: 'aG\nk', mimeType: 'audio/wav' },
  { type: 'resource_link', uri: 'a:b', name: 'b', size: 7, icons: [{ src: 'a:c', sizes: ['any'], theme: 'dark' }] },
  { type: 'resource', resource: { uri: 'a:b', text: 'x' } },
  { type: 'resource', resource: { uri: 'a:b', blob: '', mimeType: 'a/b' } },
];
