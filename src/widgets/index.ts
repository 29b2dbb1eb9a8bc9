// The widgets as MCP resources (MCP Apps), in the order clients see them.

import type { Resource } from '../mcp/resource.ts';

export const widgetResources: readonly Resource[] = [];
