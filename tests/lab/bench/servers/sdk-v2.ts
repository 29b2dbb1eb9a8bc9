// The SDK, version 2, stateless as it documents it: createMcpHandler, which makes a server for every request.

import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { type CheckedKey, openKeyCheck, refused } from './key-check.ts';
import { listen } from './listen.ts';
import { GET_DATA, sampleData } from './sample-data.ts';

const checkKey = openKeyCheck();

const handler = createMcpHandler(({ authInfo }) => {
  const key = authInfo?.extra?.key as CheckedKey; // put there below
  const server = new McpServer({ name: 'sdk-v2', version: '1.0.0' });
  server.registerTool('get_data', GET_DATA, () => sampleData(key));
  return server;
});

listen(async (request) => {
  const key = await checkKey(request);
  if (key === null) return refused();
  const token = request.headers.get('x-api-key') ?? '';
  const authInfo = { token, clientId: key.owner, scopes: [...key.scopes], extra: { key } };
  return handler.fetch(request, { authInfo });
});
