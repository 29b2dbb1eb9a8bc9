// GET /openapi.json: describes /tools/* in OpenAPI 3.1, from the schemas that validate.

import type { JsonSchema } from '../calls/schema.ts';
import type { Tool } from '../calls/tool.ts';
import { once } from '../ground/cache.ts';
import { limitInWords } from '../ground/rate-limit.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { jsonOf } from '../ground/text.ts';
import { UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import type { Handler } from '../web/router.ts';

/** Returns the alternative credentials, with the scopes that a key needs (OpenAPI 3.1, Security Requirement Object). */
function securityOf({ credential, requiredScopes }: Tool) {
  if (credential === null) return [];
  return credential === 'user_jwt'
    ? [{ userJwt: [] }]
    : [{ apiKeyHeader: requiredScopes }, { apiKeyBearer: requiredScopes }];
}

const PROBLEM_SCHEMA = {
  type: 'object',
  description: 'Problem details, RFC 9457',
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    requestId: { type: 'string' },
    of: { type: 'string', enum: ['owner'], description: 'Whose limit refuses: all keys of the owner together.' },
    issues: {
      type: 'array',
      items: {
        type: 'object',
        properties: { path: { type: 'string' }, message: { type: 'string' } },
        required: ['path', 'message'],
      },
    },
    requiredScopes: { type: 'array', items: { type: 'string' } },
    previousUntil: { type: 'integer' },
  },
  required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
} as const;

const CONTENT_SCHEMA = {
  type: 'object',
  properties: { content: { type: 'array', items: { type: 'object' } }, isError: { type: 'boolean' } },
  required: ['content'],
} as const;

export function openapiRoute(tools: readonly Tool[]): Handler {
  // Made once, except for the URL, which depends on the request.
  const parts = once(() => jsonOf(describe(tools, URL_HERE)).split(JSON.stringify(URL_HERE)));
  return ({ publicUrl }) => {
    const text = parts().join(JSON.stringify(publicUrl));
    return new Response(text, { headers: UNCACHED_JSON_HEADERS });
  };
}

/** The placeholder for this server's URL. No tool's text equals it. */
const URL_HERE = '\u0000';

function describe(tools: readonly Tool[], url: string) {
  return {
    openapi: '3.1.0',
    info: { title: SERVER_NAME, version: SERVER_VERSION, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url }],
    paths: Object.fromEntries(tools.map((tool) => [`/tools/${tool.name}`, { post: operation(tool) }])),
    components: {
      securitySchemes: {
        userJwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'A signed-in user' },
        apiKeyHeader: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        apiKeyBearer: { type: 'http', scheme: 'bearer', description: 'An API key' },
      },
      schemas: { Problem: PROBLEM_SCHEMA },
    },
  };
}

/** Returns whether a body is required. A missing one counts as `{}`, which will do if all fields are optional. */
const needsBody = ({ required }: JsonSchema) => Array.isArray(required) && required.length > 0;

/** Returns the content with a schema. A recursive one refers to its parts by paths from the document's root. */
function json(schema: JsonSchema, place: string) {
  const root = `#/paths/~1tools~1${place}/content/application~1json/schema/$defs/`;
  const placed: unknown = JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/$defs/', `"$ref":"${root}`));
  return { 'application/json': { schema: placed } };
}

const operation = (tool: Tool) => ({
  operationId: tool.name,
  summary: tool.title,
  description: tool.description,
  security: securityOf(tool),
  requestBody: {
    required: needsBody(tool.inputSchema()),
    content: json(tool.inputSchema(), `${tool.name}/post/requestBody`),
  },
  responses: {
    '200': {
      description: 'Success',
      content: json(tool.outputSchema?.() ?? CONTENT_SCHEMA, `${tool.name}/post/responses/200`),
    },
    ...(tool.requiredScopes.length > 0 && {
      '403': problem(`The key lacks a scope: ${tool.requiredScopes.join(' ')}`),
    }),
    ...(tool.initialLimits[0] && {
      '429': { ...problem(`More than ${limitInWords(tool.initialLimits[0].limit)}`), headers: LIMIT_HEADERS },
    }),
    default: problem('A problem'),
  },
});

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
});

const LIMIT_HEADERS = {
  'Retry-After': { description: 'Seconds until the window ends', schema: { type: 'integer' } },
  'RateLimit-Policy': { schema: { type: 'string' } },
  RateLimit: { schema: { type: 'string' } },
} as const;
