// Parts of results: tools, prompts and resources as lists show them, and the server's description.

import type { Prompt } from '../calls/prompt.ts';
import type { Resource } from '../calls/resource.ts';
import type { Tool } from '../calls/tool.ts';
import { UI_EXTENSION } from './apps.ts';

/** Prompts and completions are announced only if there are any. */
export const capabilitiesOf = (prompts: ReadonlyMap<string, Prompt>) => ({
  tools: {},
  resources: {},
  ...(prompts.size > 0 && { prompts: {} }),
  ...(prompts.values().some(({ completes }) => completes) && { completions: {} }),
  extensions: { [UI_EXTENSION]: {} },
});

export const INSTRUCTIONS =
  'API keys for programs. create_api_key, list_api_keys, rotate_api_key, revoke_api_key and delete_api_key act for a signed-in user (Authorization: Bearer <JWT>). Most other tools take an API key (X-API-Key, or Authorization: Bearer <key>); each says what it needs. A new key is shown once: hand it to the user at once and do not repeat it later.';

type ObjectJsonSchema = { type: 'object'; [keyword: string]: unknown };

export const describeTool = ({ name, title, description, annotations, widget, ...tool }: Tool) => ({
  name,
  title,
  description,
  inputSchema: tool.inputSchema() as ObjectJsonSchema, // the root of every tool's input is an object
  ...(tool.outputSchema !== null && { outputSchema: tool.outputSchema() as ObjectJsonSchema }),
  annotations: { title, ...annotations },
  // Early MCP Apps hosts read the flat key.
  ...(widget !== undefined && { _meta: { ui: { resourceUri: widget }, 'ui/resourceUri': widget } }),
});

export const describePrompt = ({ name, title, description, arguments: listed }: Prompt) => ({
  name,
  title,
  description,
  arguments: listed,
});

export const describeResource = ({ uri, name, title, description, mimeType, meta }: Resource) => ({
  uri,
  name,
  title,
  description,
  mimeType,
  ...(meta && { _meta: meta }),
});
