// Parts of results: tools, prompts and resources as lists show them, the server's description, and the members that an
// era adds to every result.

import type { Prompt } from '../calls/prompt.ts';
import type { Resource } from '../calls/resource.ts';
import type { Tool } from '../calls/tool.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { UI_EXTENSION } from './apps.ts';
import type { Era } from './era.ts';

/** JSON text of an object without its braces. */
export const membersOf = (value: object): string => JSON.stringify(value).slice(1, -1);

export const SERVER_INFO = { name: SERVER_NAME, version: SERVER_VERSION };

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

/** 2026-07-28, basic, "Responses". */
type ResultType = 'complete' | 'input_required';

const SERVER_META = membersOf({ 'io.modelcontextprotocol/serverInfo': SERVER_INFO });

const modernMembers = (type: ResultType, meta?: string) =>
  `"resultType":"${type}","_meta":{${meta === undefined ? SERVER_META : `${SERVER_META},${meta}`}},`;

const COMPLETE = modernMembers('complete');

/** The members that the era adds to a result, with a comma at the end. `meta`: more members of `_meta`. */
export function eraMembers(era: Era, type: ResultType = 'complete', meta?: string): string {
  if (era === 'legacy') return meta === undefined ? '' : `"_meta":{${meta}},`;
  return type === 'complete' && meta === undefined ? COMPLETE : modernMembers(type, meta);
}

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
