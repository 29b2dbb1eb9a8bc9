// What the lists say: tools and resources as clients see them, and the server's own description.

import type {
  Implementation,
  Resource as ListedResource,
  ResourceTemplate as ListedTemplate,
  Tool as ListedTool,
  ServerCapabilities,
} from '@modelcontextprotocol/sdk/types.js';
import { SERVER_NAME, SERVER_VERSION } from '../lib/server-info.ts';
import type { Tool } from '../tools/core/tool.ts';
import type { Resource, ResourceFacts, ResourceTemplate } from './resource.ts';

export const SERVER_INFO: Implementation = { name: SERVER_NAME, version: SERVER_VERSION };

export const CAPABILITIES: ServerCapabilities & { extensions: Record<string, object> } = {
  tools: {},
  resources: {},
  extensions: { 'io.modelcontextprotocol/ui': {} },
};

export const INSTRUCTIONS =
  'API keys for programs. create_api_key, list_api_keys, revoke_api_key and delete_api_key act for a signed-in user (Authorization: Bearer <JWT>). Other tools take an API key (X-API-Key, or Authorization: Bearer <key>). A new key is shown once: hand it to the user at once and do not repeat it later.';

export const describeTool = ({ name, title, description, annotations, widget, ...tool }: Tool): ListedTool => ({
  name,
  title,
  description,
  inputSchema: tool.inputSchema() as ListedTool['inputSchema'], // its root type is object, as every tool's input is
  ...(tool.outputSchema !== null && { outputSchema: tool.outputSchema() as NonNullable<ListedTool['outputSchema']> }),
  annotations: { title, ...annotations },
  // Early MCP Apps hosts read the flat key.
  ...(widget !== undefined && { _meta: { ui: { resourceUri: widget }, 'ui/resourceUri': widget } }),
});

const describeFacts = ({ name, title, description, mimeType, meta }: ResourceFacts) => ({
  name,
  title,
  description,
  mimeType,
  ...(meta && { _meta: meta }),
});

export const describeResource = (resource: Resource): ListedResource => ({
  uri: resource.uri,
  ...describeFacts(resource),
});

export const describeTemplate = (template: ResourceTemplate): ListedTemplate => ({
  uriTemplate: template.uriTemplate,
  ...describeFacts(template),
});
