// MCP Apps (protocol 2026-01-26): its names, and whether a client shows widgets.

import { isObject } from '../ground/text.ts';

export const UI_EXTENSION = 'io.modelcontextprotocol/ui';

export const WIDGET_TYPE = 'text/html;profile=mcp-app';

/** The member of a result's `_meta` with what is for the widget alone. The widgets read it too (pages/widgets/results.js). */
export const WIDGET_DATA = 'mcp-key-server/widget';

/** The capabilities of a client that shows widgets. */
export const WIDGETS_SHOWN = { extensions: { [UI_EXTENSION]: {} } };

/** True for capabilities that declare widgets, unless they name media types without this one. */
export function showsWidgets(capabilities: unknown): boolean {
  const extensions = isObject(capabilities) ? capabilities.extensions : undefined;
  const declared = isObject(extensions) ? extensions[UI_EXTENSION] : undefined;
  if (!isObject(declared)) return false;
  const { mimeTypes } = declared;
  return mimeTypes === undefined || (Array.isArray(mimeTypes) && mimeTypes.includes(WIDGET_TYPE));
}
