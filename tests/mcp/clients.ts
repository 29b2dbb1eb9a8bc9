// The official clients, in every way they connect, behind one small interface.

import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  SSEClientTransport as SseV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as SseV1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export interface ToolResult {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly isError?: unknown;
}

export interface Connected {
  listTools(): Promise<{ tools: { name: string }[] }>;
  listResources(): Promise<{ resources: { uri: string }[] }>;
  listPrompts(): Promise<{ prompts: { name: string }[] }>;
  getPrompt(prompt: { name: string; arguments: Record<string, string> }): Promise<{ messages: unknown[] }>;
  complete(request: {
    ref: { type: 'ref/prompt'; name: string };
    argument: { name: string; value: string };
  }): Promise<{ completion: { values: string[] } }>;
  callTool(call: { name: string; arguments?: Record<string, unknown> }): Promise<ToolResult>;
  close(): Promise<void>;
}

export type Connect = (url: string, headers: Record<string, string>) => Promise<Connected>;

const INFO = { name: 'test', version: '1.0.0' };

const v2 =
  (options: ConstructorParameters<typeof ClientV2>[1] = {}): Connect =>
  async (url, headers) => {
    const client = new ClientV2(INFO, options);
    await client.connect(new HttpV2(new URL(`${url}/mcp`), { requestInit: { headers } }));
    return client as unknown as Connected;
  };

export const CONNECTS: readonly (readonly [string, Connect])[] = [
  [
    'v1, Streamable HTTP',
    async (url, headers) => {
      const client = new ClientV1(INFO);
      // The transport's optional members are typed without undefined, which exactOptionalPropertyTypes tells apart.
      await client.connect(new HttpV1(new URL(`${url}/mcp`), { requestInit: { headers } }) as never);
      return client as unknown as Connected;
    },
  ],
  [
    'v1, HTTP+SSE',
    async (url, headers) => {
      const client = new ClientV1(INFO);
      await client.connect(new SseV1(new URL(`${url}/sse`), { requestInit: { headers } }));
      return client as unknown as Connected;
    },
  ],
  ['v2, as it comes', v2()],
  ['v2, auto', v2({ versionNegotiation: { mode: 'auto' } })],
  ['v2, pinned to 2026-07-28', v2({ versionNegotiation: { mode: { pin: '2026-07-28' } } })],
  [
    'v2, HTTP+SSE',
    async (url, headers) => {
      const client = new ClientV2(INFO);
      await client.connect(new SseV2(new URL(`${url}/sse`), { requestInit: { headers } }));
      return client as unknown as Connected;
    },
  ],
];
