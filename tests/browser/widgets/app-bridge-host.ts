// Runs in the browser: a host made of the official AppBridge and the official MCP client, connected to the real server.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, buildAllowAttribute, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

export interface HostOptions {
  readonly mcpUrl: string;
  readonly token: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  /** Whether it tells the server that it shows widgets, which it can in 2026-07-28. */
  readonly declaresWidgets?: boolean;
}

/** What the test can reach, as `window.hosted`. */
export interface Hosted {
  /** What the model gets of the result. */
  readonly forModel: string;
  readonly sizes: { width?: number; height?: number }[];
  setTheme(theme: 'light' | 'dark'): void;
  teardown(): Promise<Record<string, unknown>>;
}

/** Does what hosts do: list the tools, read the tool's widget, call the tool, show the widget, give it the result. */
async function host({ mcpUrl, token, tool, args, declaresWidgets = false }: HostOptions): Promise<Hosted> {
  const capabilities = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } };
  const versionNegotiation = { mode: { pin: '2026-07-28' } };
  const declaring = declaresWidgets ? { capabilities, versionNegotiation } : {};
  const client = new Client({ name: 'test-host', version: '1.0.0' }, declaring);
  await client.connect(
    new StreamableHTTPClientTransport(new URL(mcpUrl), {
      requestInit: { headers: { Authorization: `Bearer ${token}` } },
    }),
  );
  const { tools } = await client.listTools();
  const listed = tools.find(({ name }) => name === tool);
  const ui = listed?._meta?.ui as { resourceUri?: string } | undefined;
  if (!ui?.resourceUri) throw new Error(`${tool} has no widget`);
  const { contents } = await client.readResource({ uri: ui.resourceUri });
  const [content] = contents;
  if (content === undefined || !('text' in content)) throw new Error('the widget is no text');
  if (content.mimeType !== 'text/html;profile=mcp-app') throw new Error(`the widget is ${content.mimeType}`);
  const result = await client.callTool({ name: tool, arguments: args });

  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.setAttribute('allow', buildAllowAttribute((content._meta?.ui as { permissions?: object })?.permissions));
  frame.style.cssText = 'width: 700px; height: 500px; border: 0';
  document.body.append(frame);
  if (frame.contentWindow === null) throw new Error('no window');

  const hostContext = { theme: 'light', locale: 'en-US', timeZone: 'UTC' } as const;
  const hostInfo = { name: 'test-host', version: '1.0.0' };
  const bridge = new AppBridge(client, hostInfo, { serverTools: {}, logging: {} }, { hostContext });
  const sizes: Hosted['sizes'] = [];
  bridge.onsizechange = (size) => {
    sizes.push(size);
    if (size.height) frame.style.height = `${size.height}px`;
  };
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: args });
    await bridge.sendToolResult(result);
  };
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = content.text;
  return {
    forModel: JSON.stringify({ content: result.content, structuredContent: result.structuredContent }),
    sizes,
    setTheme: (theme) => bridge.setHostContext({ ...hostContext, theme }),
    teardown: () => bridge.teardownResource({}),
  };
}

Object.assign(globalThis, {
  show: async (options: HostOptions) => {
    Object.assign(globalThis, { hosted: await host(options) });
  },
});
