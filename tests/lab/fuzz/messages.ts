// Requests that make sense: every route, every transport, every protocol revision, with every kind of credential.

import fc from 'fast-check';
import { MODERN } from '../../support/mcp.ts';
import { PATHS } from '../../support/tables.ts';
import { SERVER_TOOLS as TOOLS } from '../../support/tools.ts';
import { bytesOf, FORM_TYPE, JSON_TYPE, jsonText, mutated, oddValue } from './json.ts';
import { ofServices } from './of-services.ts';
import type { PlantedSecrets } from './planted-secrets.ts';
import { signingIn } from './signing-in.ts';
import { forgedTokens } from './tokens.ts';

export interface HttpRequest {
  readonly method: string;
  readonly target: string;
  /** Without those that frame the body. */
  readonly headers: readonly (readonly [string, string])[];
  /** Bytes, one character each. */
  readonly body: string | null;
}

type HeaderList = HttpRequest['headers'];

const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

/** Text that fits into a header: no line ends, no NUL. */
export const oddHeaderValue = (secrets: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constantFrom('', ' ', '*', ',', ';', '"', '\xff', '\xc3\xa9', 'a'.repeat(4000), '=?base64?!!?=', '-1', 'null'),
    fc.constantFrom(...secrets),
    fc.string({ unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => String.fromCharCode(code)), maxLength: 40 }),
  );

function credentials(planted: PlantedSecrets): fc.Arbitrary<HeaderList> {
  const token = fc.constantFrom(...planted.tokens).map((text): HeaderList => [['Authorization', `Bearer ${text}`]]);
  const key = fc.constantFrom(...planted.keys).map((text): HeaderList => [['X-API-Key', text]]);
  const bad = fc.constantFrom(...planted.badKeys, ...planted.badTokens, ...planted.keys.map((text) => `${text}0`));
  return fc.oneof(
    { weight: 6, arbitrary: token },
    { weight: 5, arbitrary: key },
    { weight: 2, arbitrary: fc.constant<HeaderList>([]) },
    { weight: 1, arbitrary: fc.tuple(token, key).map(([first, second]) => [...first, ...second]) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(...planted.keys).map((text): HeaderList => [['authorization', `bearer ${text}`]]),
    },
    { weight: 1, arbitrary: bad.map((text): HeaderList => [['X-API-Key', text]]) },
    { weight: 1, arbitrary: bad.map((text): HeaderList => [['Authorization', `Bearer ${text}`]]) },
    { weight: 1, arbitrary: forgedTokens(planted).map((text): HeaderList => [['Authorization', `Bearer ${text}`]]) },
    { weight: 1, arbitrary: oddHeaderValue(planted.secrets).map((text): HeaderList => [['Authorization', text]]) },
  );
}

/** Input that the tool takes. */
function toolInput(planted: PlantedSecrets, tool: string): fc.Arbitrary<Record<string, unknown>> {
  switch (tool) {
    case 'create_api_key':
      return fc.record(
        {
          name: fc.constantFrom('a', 'ключ', '😀'.repeat(200), 'billing export'),
          scopes: fc.constantFrom([], ['read'], ['read', 'write:orders', 'x']),
          expiresInDays: fc.constantFrom(1, 0.5, 36_500),
          rateLimit: fc.constantFrom({ requests: 5, window: '1m' }, { requests: 0, window: '1s' }),
          quota: fc.constantFrom({ requests: 100, period: 'day' }, { requests: 100, period: 'year' }),
          resource: fc.constantFrom('http://localhost/mcp', 'https://other.example/mcp', null),
        },
        { requiredKeys: ['name', 'scopes'] },
      );
    case 'list_api_keys':
      return fc.constantFrom<Record<string, unknown>[]>(
        {},
        {},
        { cursor: planted.cursor },
        { cursor: 'x' },
        { childrenOf: planted.keyIds[3] },
        { childrenOf: planted.keyIds[0], cursor: '' },
      );
    case 'rotate_api_key':
      return fc.record(
        {
          keyId: fc.oneof(fc.constant(planted.rotatedId), endedIds(planted)),
          overlapHours: fc.constantFrom(0, 1, 24, 720, 721, 0.5),
        },
        { requiredKeys: ['keyId'] },
      );
    case 'revoke_api_key':
    case 'delete_api_key':
      return fc.record({ keyId: endedIds(planted) });
    case 'admin_list_keys':
      return fc.constantFrom({}, { owner: 'user-9' }, { owner: 'nobody' }, { cursor: 'x' });
    case 'admin_list_owners':
      return fc.constantFrom({}, { cursor: 'x' });
    case 'admin_revoke_keys':
      return fc.oneof(
        endedIds(planted).map((keyId) => ({ keyIds: [keyId] })),
        fc.constantFrom<Record<string, unknown>[]>({}, { owner: 'nobody' }, { keyIds: [] }),
      );
    case 'admin_update_key':
      return fc.tuple(endedIds(planted), ofOwner).map(([keyId, change]) => ({ keyId, ...change }));
    case 'admin_update_owner':
      return fc
        .tuple(
          fc.constantFrom('user-38', 'nobody', ''),
          ofOwner,
          fc.constantFrom({}, { keysMax: 3 }, { blocked: true }),
        )
        .map(([owner, change, more]) => ({ owner, ...change, ...more }));
    default:
      return fc.constantFrom<Record<string, unknown>[]>({}, { _meta: { api_key: planted.keys[0] } }, { _meta: null });
  }
}

/** What an admin sets of a key, and of an owner. */
const ofOwner = fc.constantFrom<Record<string, unknown>[]>(
  {},
  { rateLimit: { requests: 100, window: '1h' }, quota: { requests: 100, period: 'day' } },
  { rateLimit: null, quota: null, metadata: null },
  { metadata: { plan: 'pro', seats: '5' } },
  { metadata: { Plan: 'pro' } },
);

/** Ids of keys that stay as they are (a call repeats what was done, or there is no such key), or that may end. */
const endedIds = (planted: PlantedSecrets) =>
  fc.oneof(
    fc.constantFrom(...planted.doomedIds),
    fc.constantFrom(...planted.keyIds.slice(4, 6), 'x', '0'.repeat(32), 'F'.repeat(32)),
  );

/** There are some where ADMIN_CLAIM is set. */
const ADMIN_TOOLS = [
  'admin_list_keys',
  'admin_list_owners',
  'admin_revoke_keys',
  'admin_update_key',
  'admin_update_owner',
];

const toolCall = (planted: PlantedSecrets) =>
  fc
    .constantFrom(...TOOLS, 'get_data', ...ADMIN_TOOLS, 'no_such_tool')
    .chain((name) => fc.tuple(fc.constant(name), toolInput(planted, name)));

const rest = (planted: PlantedSecrets): fc.Arbitrary<Draft> =>
  toolCall(planted).map(([name, input]) => ({
    method: 'POST',
    target: `/tools/${name}`,
    headers: [JSON_TYPE],
    body: input,
  }));

/** A request whose body is still a value, or text that is sent as it is. */
export interface Draft {
  readonly method: string;
  readonly target: string;
  readonly headers: HeaderList;
  readonly body: unknown;
  readonly text?: string;
}

/** What the page sends for a person, beside the tools. */
const ofPage = (planted: PlantedSecrets): fc.Arbitrary<Draft> => {
  const keyId = fc.oneof(endedIds(planted), fc.constantFrom(...planted.keyIds));
  const history = fc.record({ keyId, cursor: fc.constantFrom('', 'x') }, { requiredKeys: ['keyId'] });
  const edit = fc.record(
    {
      keyId: endedIds(planted),
      name: fc.constantFrom('renamed', '', ' '),
      scopes: fc.constantFrom([], ['read'], ['admin']),
      expiresInDays: fc.constantFrom(1, 36_500, -1),
    },
    { requiredKeys: ['keyId'] },
  );
  return fc
    .oneof(
      history.map((body) => ['/keys/events', body] as const),
      edit.map((body) => ['/keys/update', body] as const),
    )
    .map(([target, body]) => ({ method: 'POST', target, headers: [JSON_TYPE], body }));
};

/** Leaked keys, and much else but the keys that other inputs use. */
function revocation(planted: PlantedSecrets): fc.Arbitrary<Draft> {
  const harmless = planted.secrets.filter((secret) => ![...planted.keys, planted.service].includes(secret));
  const token = fc.constantFrom(
    ...planted.leaked,
    ...planted.badKeys,
    ...harmless,
    '',
    'x',
    'é',
    `sk_test_${'F'.repeat(64)}`,
  );
  const object = fc.record(
    { token, type: fc.constantFrom('mcp_key', 1, null), url: fc.constant('https://example.com/a'), source: token },
    { requiredKeys: ['token'] },
  );
  const many = fc.constantFrom(99, 100, 101, 1000).map((count) => Array.from({ length: count }, (_, at) => `sk_${at}`));
  const list = fc.oneof(
    { weight: 6, arbitrary: fc.array(fc.oneof(token, object), { minLength: 1, maxLength: 5 }) },
    { weight: 1, arbitrary: fc.tuple(many, token).map(([texts, last]) => [...texts.slice(1), last]) },
  );
  const json = jsonText(
    fc.oneof(
      { weight: 3, arbitrary: list },
      { weight: 2, arbitrary: mutated(list, harmless) },
      { weight: 1, arbitrary: oddValue(harmless) },
    ),
  ).map((text) => [text, JSON_TYPE] as const);
  const form = fc
    .array(fc.tuple(fc.constantFrom('token', 'token', 'token', 'token_type_hint', 'x', '%'), token), { maxLength: 3 })
    .map((fields) => [bytesOf(fields.map((pair) => pair.join('=')).join('&')), FORM_TYPE] as const);
  return fc
    .oneof({ weight: 3, arbitrary: json }, { weight: 1, arbitrary: form })
    .map(([text, type]) => ({ method: 'POST', target: '/revoke', headers: [type], body: undefined, text }));
}

const id = fc.constantFrom<unknown[]>(1, 0, -1, 'a', '', 2 ** 53 - 1, 'ü');

function rpcParams(planted: PlantedSecrets): fc.Arbitrary<readonly [string, Record<string, unknown>]> {
  const call = fc
    .tuple(toolCall(planted), fc.constantFrom<object[]>({}, { _meta: { progressToken: 1 } }))
    .map(([[name, args], meta]) => ['tools/call', { name, arguments: args, ...meta }] as const);
  const uri = fc.constantFrom(
    'ui://widget/api-keys-list.html',
    'ui://widget/api-key-created.html',
    'ui://x',
    'file:///',
  );
  return fc.oneof(
    { weight: 6, arbitrary: call },
    { weight: 1, arbitrary: uri.map((found) => ['resources/read', { uri: found }] as const) },
    {
      weight: 3,
      arbitrary: fc.constantFrom<(readonly [string, Record<string, unknown>])[]>(
        ...[...LEGACY, MODERN, '1999-01-01'].map((protocolVersion): readonly [string, Record<string, unknown>] => [
          'initialize',
          { protocolVersion, capabilities: {}, clientInfo: { name: 'x', version: '1' } },
        ]),
        ['ping', {}],
        ['tools/list', {}],
        ['tools/list', { cursor: 'x' }],
        ['resources/list', {}],
        ['resources/templates/list', {}],
        ['server/discover', {}],
        ['subscriptions/listen', {}],
        ['prompts/get', { name: 'x' }],
        ['no/such/method', {}],
      ),
    },
  );
}

const legacyMessage = (planted: PlantedSecrets) =>
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc
        .tuple(rpcParams(planted), id)
        .map(([[method, params], messageId]) => ({ jsonrpc: '2.0', id: messageId, method, params })),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom<object[]>(
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
        { jsonrpc: '2.0', id: 1, result: {} },
        { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } },
      ),
    },
  );

const ACCEPTS = ['application/json, text/event-stream', 'text/event-stream', 'application/json', '*/*'];

const legacy = (planted: PlantedSecrets): fc.Arbitrary<Draft> =>
  fc
    .tuple(legacyMessage(planted), fc.constantFrom(null, ...LEGACY), fc.constantFrom(...ACCEPTS))
    .map(([body, version, accept]) => ({
      method: 'POST',
      target: '/mcp',
      headers: [
        JSON_TYPE,
        ['Accept', accept],
        ...(version === null ? [] : [['MCP-Protocol-Version', version] as const]),
      ],
      body,
    }));

const batch = (planted: PlantedSecrets): fc.Arbitrary<Draft> =>
  fc.array(legacyMessage(planted), { maxLength: 5 }).map((body) => ({
    method: 'POST',
    target: '/mcp',
    headers: [JSON_TYPE, ['MCP-Protocol-Version', '2025-03-26']],
    body: body.map((message, index) => ('method' in message && 'id' in message ? { ...message, id: index } : message)),
  }));

const modern = (planted: PlantedSecrets): fc.Arbitrary<Draft> =>
  fc.tuple(rpcParams(planted), id, fc.constantFrom(...ACCEPTS)).map(([[method, params], messageId, accept]) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientCapabilities': {},
      ...(params._meta as object | undefined),
    };
    const name = params.name ?? params.uri;
    return {
      method: 'POST',
      target: '/mcp',
      headers: [
        JSON_TYPE,
        ['Accept', accept],
        ['MCP-Protocol-Version', MODERN],
        ['Mcp-Method', method],
        ...(typeof name === 'string' ? [['Mcp-Name', name] as const] : []),
      ],
      body: { jsonrpc: '2.0', id: messageId, method, params: { ...params, _meta } },
    };
  });

/** Posts to open streams, and to streams that don't exist. */
const posted = (planted: PlantedSecrets, sessions: readonly string[]): fc.Arbitrary<Draft> =>
  fc
    .tuple(legacyMessage(planted), fc.constantFrom(...sessions, ...sessions, '/messages?sessionId=x', '/messages'))
    .map(([body, target]) => ({
      method: 'POST',
      target,
      headers: [JSON_TYPE],
      body,
    }));

const READS = [
  ...PATHS.filter((path) => path !== '/sse'), // its response doesn't end; streams.ts opens it
  '/verify?scope=read',
  '/verify?scope=read&scope=x',
  '/verify?scope=&cost=5',
  '/verify?cost=5&path=/a?scope=x',
  '/verify?resource=https://other.example/mcp',
  '/widgets/preview?widget=api-keys-list&theme=dark',
  '/authorize?client_id=x&redirect_uri=http://127.0.0.1/&response_type=code',
  '/%2e%2e/etc/passwd',
  '//evil.example/',
  '/tools/../mcp/health',
  '/TOOLS/get_data',
  '/tools/%67et_data',
];

const read = (planted: PlantedSecrets): fc.Arbitrary<Draft> =>
  fc
    .tuple(
      fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'OPTIONS', 'DELETE', 'PUT', 'PATCH'),
      fc.constantFrom(...READS),
      fc.constantFrom('', ...planted.secrets.filter((secret) => !/\s/.test(secret)).map((secret) => `?data=${secret}`)),
      fc.constantFrom<HeaderList[]>([], [['Origin', 'http://localhost:5173']], [['Origin', 'https://evil.example']]),
    )
    .map(([method, path, query, origin]) => ({
      method,
      target: path + (path.includes('?') ? '' : query),
      headers: method === 'OPTIONS' ? [...origin, ['Access-Control-Request-Method', 'POST']] : origin,
      body: undefined,
    }));

const ADDED = [
  'X-Required-Scope',
  'X-Key-Owner',
  'Origin',
  'X-Forwarded-For',
  'X-Forwarded-Proto',
  'Forwarded',
  'Mcp-Session-Id',
  'Mcp-Name',
  'Mcp-Param-X',
  'Last-Event-ID',
  'Cookie',
  'Accept',
  'Accept-Encoding',
  'Range',
  'If-None-Match',
  'Access-Control-Request-Headers',
  'Referer',
  'User-Agent',
  'Via',
  'X-HTTP-Method-Override',
];

const addedHeaders = (planted: PlantedSecrets): fc.Arbitrary<HeaderList> =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constant<HeaderList>([]) },
    {
      weight: 1,
      arbitrary: fc.array(fc.tuple(fc.constantFrom(...ADDED), oddHeaderValue(planted.secrets)), {
        minLength: 1,
        maxLength: 3,
      }),
    },
  );

/** Well-formed HTTP of every kind; about a third of the bodies are correct. */
export function requests(planted: PlantedSecrets, sessions: readonly string[]): fc.Arbitrary<HttpRequest> {
  const draft = fc.oneof(
    { weight: 4, arbitrary: rest(planted) },
    { weight: 4, arbitrary: legacy(planted) },
    { weight: 3, arbitrary: modern(planted) },
    { weight: 2, arbitrary: batch(planted) },
    { weight: 2, arbitrary: posted(planted, sessions) },
    { weight: 1, arbitrary: read(planted) },
    { weight: 1, arbitrary: ofPage(planted) },
    { weight: 1, arbitrary: ofServices(planted) },
    { weight: 1, arbitrary: revocation(planted) },
    { weight: 2, arbitrary: signingIn(planted) },
  );
  const changed = draft.chain((made) =>
    fc.tuple(
      fc.constant(made),
      made.body === undefined
        ? fc.constant(made.text ?? null)
        : jsonText(
            fc.oneof(
              { weight: 3, arbitrary: fc.constant(made.body) },
              { weight: 5, arbitrary: mutated(fc.constant(made.body), planted.secrets) },
              { weight: 1, arbitrary: oddValue(planted.secrets) },
            ),
          ),
    ),
  );
  return fc
    .tuple(changed, credentials(planted), addedHeaders(planted), fc.nat(255), fc.nat(200))
    .map(([[made, body], carried, added, host, doubled]) => {
      // Many callers, as settings.ts says.
      const headers = [['X-Forwarded-For', `10.0.${host}.1`] as const, ...made.headers, ...carried, ...added];
      const twice = headers.slice(doubled, doubled + 1);
      return { method: made.method, target: made.target, headers: [...headers, ...twice], body };
    });
}
