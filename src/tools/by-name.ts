// The tools by the names they are called by. A name that is taken twice, or that no client could use, stops the start.

import type { Tool } from './tool.ts';

/** What MCP allows (2025-11-25, server/tools, "Tool Names"); all of it can stand in a path as it is. */
const NAME = /^[\w.-]{1,128}$/;

/** In the order given. Throws an Error that says which name can't be. */
export function toolsByName(tools: readonly Tool[]): ReadonlyMap<string, Tool> {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    const { name } = tool;
    const shown = JSON.stringify(name);
    if (!NAME.test(name)) throw new Error(`tool name: expected 1-128 letters, digits, "_", "-" or ".", got ${shown}`);
    if (byName.has(name)) throw new Error(`tool name: expected a different one for each tool, got ${shown} twice`);
    byName.set(name, tool);
  }
  return byName;
}
