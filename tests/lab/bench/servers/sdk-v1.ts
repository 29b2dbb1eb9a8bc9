// The SDK, version 1, stateless as it documents it (honoWebStandardStreamableHttp, simpleStatelessStreamableHttp): a
// new server and a new transport for every request. On Bun.serve without Express, and with JSON responses: its fastest
// form.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { type CheckedKey, openKeyCheck, refused } from './key-check.ts';
import { listen } from './listen.ts';
import { GET_DATA, sampleData } from './sample-data.ts';

const checkKey = openKeyCheck();

function createServer(key: CheckedKey): McpServer {
  const server = new McpServer({ name: 'sdk-v1', version: '1.0.0' });
  server.registerTool('get_data', GET_DATA, () => sampleData(key));
  return server;
}

listen(async (request) => {
  const key = await checkKey(request);
  if (key === null) return refused();
  // Without a sessionIdGenerator it is stateless.
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await createServer(key).connect(transport);
  return transport.handleRequest(request);
});
