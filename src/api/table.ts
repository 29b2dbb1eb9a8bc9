// The table of routes: path, method, body, credential and description. It drives the router, `GET /`, the checks of
// documents, and the tests that visit every route; index.ts has the handlers.

import type { RouteRules } from '../web/router.ts';

/** `path`: below BASE_PATH, except /.well-known; `<…>` stands for one segment. */
export interface RouteFacts extends RouteRules {
  /** `any`: see `any` of web/router.ts. */
  readonly method: 'GET' | 'POST' | 'GET, POST' | 'any';
  /** The credential that a request needs. None: anybody may call, or the handler decides by what was sent. */
  readonly who?: 'key' | 'user' | 'client' | 'scraper';
  /** What `GET /` says about the route; without it the route isn't listed. */
  readonly says?: string;
  /** A page or document that a browser can show. */
  readonly isLinked?: boolean;
}

export const ROUTES = {
  about: { method: 'GET', path: '/', openToAnyOrigin: true },
  mcp: { method: 'POST', path: '/mcp', says: 'MCP, Streamable HTTP' },
  sse: { method: 'GET', path: '/sse', says: 'MCP, HTTP+SSE of 2024-11-05' },
  messages: { method: 'POST', path: '/messages', says: 'the messages of its clients' },
  tools: { method: 'POST', path: '/tools/<tool_name>', says: 'the same tools over plain HTTP (POST, JSON)' },
  openapi: {
    method: 'GET',
    path: '/openapi.json',
    openToAnyOrigin: true,
    says: 'their description, OpenAPI 3.1',
    isLinked: true,
  },
  keys: { method: 'GET', path: '/keys', says: 'the page where people make and end their API keys', isLinked: true },
  adminPart: { method: 'GET', path: '/keys/operators.js' },
  keyEdit: { method: 'POST', path: '/keys/update', who: 'user' },
  keyHistory: { method: 'POST', path: '/keys/events', who: 'user' },
  verify: { method: 'any', path: '/verify', who: 'key', says: 'whether an API key is good, for proxies' },
  introspect: {
    method: 'POST',
    path: '/introspect',
    who: 'client',
    takes: 'form',
    takesSecrets: true,
    says: 'the same for services (OAuth token introspection)',
  },
  changes: {
    method: 'POST',
    path: '/changes',
    who: 'client',
    takes: 'form',
    takesSecrets: true,
    withoutCors: true,
    says: 'tells services what has changed, so that they check keys from memory',
  },
  revoke: {
    method: 'POST',
    path: '/revoke',
    takes: 'json_or_form',
    takesSecrets: true,
    says: 'ends a leaked API key (POST, token=<key>)',
  },
  authorize: {
    method: 'GET, POST',
    path: '/authorize',
    takes: 'form',
    takesSecrets: true,
    says: 'where OAuth clients get a key',
  },
  register: { method: 'POST', path: '/register', openToAnyOrigin: true, says: 'where they register' },
  token: {
    method: 'POST',
    path: '/token',
    takes: 'form',
    takesSecrets: true,
    openToAnyOrigin: true,
    says: 'exchanges codes, keys and tokens of workloads for keys',
  },
  deviceAuthorization: {
    method: 'POST',
    path: '/device_authorization',
    takes: 'form',
    takesSecrets: true,
    says: 'where programs without a browser ask for a key',
  },
  deviceRequest: { method: 'POST', path: '/device/request', who: 'user', takesSecrets: true },
  deviceDecision: { method: 'POST', path: '/device/decision', who: 'user', takesSecrets: true },
  health: { method: 'GET', path: '/mcp/health', openToAnyOrigin: true, anyHost: true, says: 'health', isLinked: true },
  metrics: {
    method: 'GET',
    path: '/metrics',
    who: 'scraper',
    takesPlainHttp: true,
    says: 'metrics for Prometheus, with METRICS_TOKEN',
  },
  preview: { method: 'GET', path: '/widgets/preview', says: 'preview of the widgets', isLinked: true },
  serverMetadata: { method: 'GET', path: '/.well-known/oauth-authorization-server', openToAnyOrigin: true },
  resourceMetadata: { method: 'GET', path: '/.well-known/oauth-protected-resource', openToAnyOrigin: true },
} as const satisfies Readonly<Record<string, RouteFacts>>;

export type RouteName = keyof typeof ROUTES;

export const routeNames = Object.keys(ROUTES) as RouteName[];
