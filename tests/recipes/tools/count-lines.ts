// A tool that shows its progress, can be stopped, and returns content blocks: it counts the lines of a page, slowly.

import { defineTool, err, ok, type ToolDeps, v } from 'mcp-key-server';

const PAGES = new Map([['terms', 'one\ntwo\nthree']]);

export default ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'count_lines',
    title: 'Count lines',
    description: 'Counts the lines of a page.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    timeoutMs: 300_000,
    input: v.strictObject({ id: v.pipe(v.string(), v.description('The id of the page.')) }),
    async run({ id }, { progress, signal }) {
      const lines = PAGES.get(id)?.split('\n');
      if (lines === undefined) return err({ code: 'invalid_input', issues: [{ path: 'id', message: 'No such page' }] });
      for (const index of lines.keys()) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        signal.throwIfAborted();
        progress(index + 1, lines.length);
      }
      return ok({ content: [{ type: 'text', text: `${lines.length} lines` }] });
    },
  });
