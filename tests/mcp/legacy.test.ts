// /mcp up to 2025-11-25: initialize, lifecycle, the version header, methods.

import { describe, expect, test } from 'bun:test';
import { type HeaderMap, post, request } from '../support/mcp.ts';
import { sharedApp } from '../support/test-app.ts';

const CAPABILITIES = { tools: {}, resources: {}, extensions: { 'io.modelcontextprotocol/ui': {} } };
const VERSIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

const app = await sharedApp();

const initialize = (protocolVersion: unknown) =>
  request('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } });

interface Listed {
  readonly name: string;
  readonly description: string;
}

describe('initialize', () => {
  test.each(VERSIONS)('echoes %s', async (version) => {
    const { status, body } = await post(app, initialize(version));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      jsonrpc: '2.0',
      id: 1,
      result: {
        protocolVersion: version,
        capabilities: CAPABILITIES,
        serverInfo: { name: 'mcp-key-server', version: '1.0.0' },
      },
    });
  });

  test('gives instructions that name each tool for users', async () => {
    const { instructions } = (await post(app, initialize('2025-11-25'))).body.result;
    const { tools } = (await post(app, request('tools/list'))).body.result;
    const forUsers = tools.filter(({ description }: Listed) => description.endsWith('Needs a user token.'));
    expect(forUsers).toHaveLength(5);
    for (const { name } of forUsers) expect(instructions).toContain(name);
  });

  test.each(['1900-01-01', '2026-07-28', '2099-12-31', 'draft', ''])(
    'responds with the newest version it has for "%s", whatever the header says',
    async (version) => {
      for (const headers of [{}, { 'mcp-protocol-version': '1999-01-01' }] as HeaderMap[]) {
        const { status, body } = await post(app, initialize(version), headers);
        expect([status, body.result.protocolVersion]).toEqual([200, '2025-11-25']);
      }
    },
  );

  test('initialize with the version header of 2026-07-28 is a mismatch', async () => {
    const { status, body } = await post(app, initialize('2025-11-25'), { 'mcp-protocol-version': '2026-07-28' });
    expect([status, body.error.code, body.id]).toEqual([400, -32020, 1]);
  });

  test.each([[undefined], [null], [1], [[]]])(
    'without a version that is a string (%p) is bad input',
    async (version) => {
      const { status, body } = await post(app, initialize(version));
      expect([status, body.error.code]).toEqual([200, -32602]);
    },
  );
});

describe('lifecycle', () => {
  test.each(VERSIONS)('ping returns an empty result at %s, whatever session and event are named', async (version) => {
    const named = { 'mcp-session-id': 'long-gone', 'last-event-id': '\t%%%not an id' };
    const response = await post(app, request('ping'), { 'mcp-protocol-version': version, ...named });
    expect([response.status, response.body]).toEqual([200, { jsonrpc: '2.0', id: 1, result: {} }]);
    expect(response.headers.get('mcp-session-id')).toBeNull();
  });

  test.each([
    ['a notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
    ['a notification nobody knows', { jsonrpc: '2.0', method: 'notifications/whatever', params: { a: 1 } }],
    ['a posted result', { jsonrpc: '2.0', id: 7, result: {} }],
    ['a posted error', { jsonrpc: '2.0', id: 7, error: { code: -1, message: 'no' } }],
  ])('%s is accepted with 202 and no body', async (_what, message) => {
    const { status, body, headers } = await post(app, message, { 'mcp-protocol-version': '2025-11-25' });
    expect([status, body, headers.get('content-type')]).toEqual([202, '', null]);
  });

  test('GET and DELETE are 405 with Allow: POST, whatever credentials say', async () => {
    for (const method of ['GET', 'DELETE', 'PUT', 'HEAD']) {
      for (const headers of [{}, { authorization: 'Bearer nonsense' }] as Record<string, string>[]) {
        const response = await fetch(`${app.url}/mcp`, { method, headers });
        expect([method, response.status, response.headers.get('allow')]).toEqual([method, 405, 'POST']);
        expect(response.headers.get('www-authenticate')).toBeNull();
      }
    }
  });
});

describe('the version header', () => {
  test.each(['1999-01-01', '2025-11-26', 'x', '2025-11-25, 2025-11-25', '2025-11-25, 2026-07-28'])(
    '"%s" is 400',
    async (version) => {
      const responses = [
        await post(app, request('tools/list'), { 'mcp-protocol-version': version }),
        await post(app, { jsonrpc: '2.0', method: 'notifications/x' }, { 'mcp-protocol-version': version }),
        await post(app, { jsonrpc: '2.0', id: 1, result: {} }, { 'mcp-protocol-version': version }),
        await post(app, [request('ping')], { 'mcp-protocol-version': version }),
      ];
      expect(responses.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
      expect(responses.map(({ body }) => body.error.code)).toEqual([-32600, -32600, -32600, -32600]);
    },
  );

  test('of a modern revision without the _meta that belongs to it is 400', async () => {
    const { status, body } = await post(app, request('tools/list'), { 'mcp-protocol-version': '2026-07-28' });
    expect([status, body.error.code]).toEqual([400, -32602]);
  });
});

describe('methods', () => {
  test.each([
    'nope',
    'constructor',
    'toString',
    '__proto__',
    'hasOwnProperty',
    '',
    'server/discover',
    'logging/setLevel',
  ])('an unknown one ("%s") is -32601 in a 200', async (method) => {
    const { status, body } = await post(app, request(method));
    expect([status, body]).toEqual([
      200,
      { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'Method not found' } },
    ]);
  });

  test.each([
    ['tools/list', 'tools'],
    ['resources/list', 'resources'],
    ['resources/templates/list', 'resourceTemplates'],
  ])('%s has one page, so every cursor is unknown, and nothing of 2026-07-28', async (method, member) => {
    const { result } = (await post(app, request(method))).body;
    expect(Object.keys(result)).toEqual([member]);
    if (member === 'resourceTemplates') expect(result.resourceTemplates).toEqual([]);
    for (const cursor of ['', 'abc', 1, null]) {
      const { status, body } = await post(app, request(method, { cursor }));
      expect([status, body.error.code]).toEqual([200, -32602]);
    }
  });

  test.each([
    ['a missing resource', { uri: 'ui://nope' }, -32002, { uri: 'ui://nope' }],
    ['no uri', {}, -32602, undefined],
    ['a uri that is no string', { uri: 5 }, -32602, undefined],
  ])('resources/read with %s', async (_what, params, code, data) => {
    const { status, body } = await post(app, request('resources/read', params));
    expect([status, body.error.code, body.error.data]).toEqual([200, code, data]);
  });
});
