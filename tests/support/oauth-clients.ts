// The official MCP clients of both SDK generations, each as one kind of connection, for tests of signing in.

import * as v2 from '@modelcontextprotocol/client';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { SignIn } from './oauth-client.ts';

/** One connection attempt of a client, whichever SDK it comes from. */
export interface Connection {
  connect(): Promise<unknown>;
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  finishAuth(back: URLSearchParams): Promise<void>;
  close(): Promise<void>;
}

type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

export interface ClientKind {
  readonly path: '/mcp' | '/sse';
  /** `fetch`: for a server whose certificate only the test trusts. */
  connection(url: URL, provider: SignIn['provider'], fetch?: FetchLike): Connection;
}

const INFO = { name: 'test', version: '1' };

const of = (
  client: Pick<Client | v2.Client, 'listTools' | 'callTool' | 'close'>,
  steps: Pick<Connection, 'connect' | 'finishAuth'>,
): Connection => ({
  ...steps,
  listTools: () => client.listTools(),
  callTool: (call) => client.callTool(call),
  close: () => client.close(),
});

export function ofV1(transport: Transport & { finishAuth(code: string): Promise<void> }): Connection {
  const client = new Client(INFO);
  return of(client, {
    connect: () => client.connect(transport),
    finishAuth: (back) => transport.finishAuth(back.get('code') ?? ''),
  });
}

function ofV2(
  transport: v2.StreamableHTTPClientTransport | v2.SSEClientTransport,
  mode?: v2.VersionNegotiationMode,
): Connection {
  const client = new v2.Client(INFO, mode === undefined ? {} : { versionNegotiation: { mode } });
  return of(client, {
    connect: () => client.connect(transport),
    finishAuth: (back) => transport.finishAuth(back),
  });
}

const v2Http = (mode?: v2.VersionNegotiationMode): ClientKind => ({
  path: '/mcp',
  connection: (url, authProvider, fetch) =>
    ofV2(new v2.StreamableHTTPClientTransport(url, { authProvider, ...(fetch && { fetch }) }), mode),
});

export const CLIENTS: Readonly<Record<string, ClientKind>> = {
  'SDK v1 over Streamable HTTP': {
    path: '/mcp',
    // Their declarations don't allow for exactOptionalPropertyTypes.
    connection: (url, authProvider, fetch) =>
      ofV1(
        new StreamableHTTPClientTransport(url, { authProvider, ...(fetch && { fetch }) }) as Parameters<typeof ofV1>[0],
      ),
  },
  'SDK v1 over HTTP+SSE': {
    path: '/sse',
    connection: (url, authProvider) => ofV1(new SSEClientTransport(url, { authProvider })),
  },
  'SDK v2 over Streamable HTTP': v2Http(),
  'SDK v2 over Streamable HTTP, auto': v2Http('auto'),
  'SDK v2 over Streamable HTTP, pinned': v2Http({ pin: '2026-07-28' }),
  'SDK v2 over HTTP+SSE': {
    path: '/sse',
    connection: (url, authProvider) => ofV2(new v2.SSEClientTransport(url, { authProvider })),
  },
};

/** Those over HTTP that negotiate nothing, one of each SDK. */
export const OVER_HTTP = Object.entries(CLIENTS).filter(([name]) => /Streamable HTTP$/.test(name));

/** What every client throws that has to sign in first. */
export const isUnauthorized = (error: unknown): boolean =>
  error instanceof UnauthorizedError || error instanceof v2.UnauthorizedError;

/** A client that has signed in: from a 401 over the page to a connection. */
export async function signedIn(
  kind: ClientKind,
  url: URL,
  { provider, signIn }: Pick<SignIn, 'provider' | 'signIn'>,
  fetch?: FetchLike,
): Promise<Connection> {
  const refused = kind.connection(url, provider, fetch);
  const error = await refused.connect().catch((error: unknown) => error);
  if (!isUnauthorized(error)) throw new Error(`it was not told to sign in: ${error}`);
  await refused.finishAuth(await signIn());
  const client = kind.connection(url, provider, fetch);
  await client.connect();
  return client;
}
