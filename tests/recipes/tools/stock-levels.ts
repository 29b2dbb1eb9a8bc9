// A tool with a widget of its own (MCP Apps): how many of each article are left, as bars, light and dark.

import { defineTool, ok, type Resource, type ToolDeps, v } from 'mcp-key-server';

const URI = 'ui://widget/stock-levels.html';

const HTML = `<!doctype html>
<meta charset="utf-8">
<title>Stock</title>
<style>
  :root { color-scheme: light dark; font: 14px / 1.6 var(--font-sans, sans-serif); }
  body { margin: 0; padding: 12px; color: var(--color-text-primary, CanvasText); }
  meter { width: 120px; margin-right: 8px; }
</style>
<p id="said">Loading…</p>
<div id="items"></div>
<button id="again" hidden>Look again</button>
<script type="module">
  // 1. The chat app is the window around this one, and speaks JSON-RPC 2.0 by postMessage.
  const waiting = new Map();
  const post = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const request = (method, params) => new Promise((resolve) => {
    const id = waiting.size + 1;
    waiting.set(id, resolve);
    post({ id, method, params });
  });

  // 2. It is sent the result of the tool, as the tool returned it. What comes is shown as text, never as markup.
  function show({ structuredContent, content }) {
    said.textContent = structuredContent ? 'In stock' : content?.[0]?.text ?? 'Nothing to show';
    items.replaceChildren(...(structuredContent?.items ?? []).map(({ name, count }) => {
      const line = document.createElement('div');
      const meter = Object.assign(document.createElement('meter'), { max: 100, value: count });
      meter.setAttribute('aria-label', name);
      line.append(meter, name + ': ' + count);
      return line;
    }));
  }

  // 3. Light or dark, and the colours and fonts of the chat app, as far as it says.
  function dress({ theme, styles }) {
    const { style } = document.documentElement;
    if (theme) style.colorScheme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) style.setProperty(name, value);
  }

  window.addEventListener('message', ({ source, data }) => {
    if (source !== parent) return;
    if (data.method === 'ui/notifications/tool-result') show(data.params);
    else if (data.method === 'ui/notifications/host-context-changed') dress(data.params);
    else if (data.method === undefined) waiting.get(data.id)?.(data.result ?? {});
    else if (data.id !== undefined) post({ id: data.id, result: {} }); // ping, and the end of the widget
  });

  // 4. It greets the chat app, and is sent nothing before it has said that it is ready.
  const { hostContext = {}, hostCapabilities = {} } = await request('ui/initialize', {
    appInfo: { name: 'stock-levels', version: '1.0.0' },
    appCapabilities: {},
    protocolVersion: '2026-01-26',
  });
  dress(hostContext);
  post({ method: 'ui/notifications/initialized', params: {} });

  // 5. It tells how high it is, whenever that changes.
  new ResizeObserver(() => {
    const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
    post({ method: 'ui/notifications/size-changed', params: { width: innerWidth, height } });
  }).observe(document.documentElement);

  // 6. It calls a tool through the chat app, with the credential of that, if the chat app lets widgets do so.
  again.hidden = !hostCapabilities.serverTools;
  again.onclick = async () => show(await request('tools/call', { name: 'stock_levels', arguments: {} }));
</script>
`;

export const resources: Resource[] = [
  {
    uri: URI,
    name: 'stock-levels',
    title: 'Stock levels',
    description: 'Shows how many of each article are left.',
    mimeType: 'text/html;profile=mcp-app',
    read: () => ({ text: HTML }),
  },
];

export default ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'stock_levels',
    title: 'Stock levels',
    description: 'Says how many of each article are left. Use it before an order is promised.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    widget: URI,
    sample: {
      items: [
        { name: 'cups', count: 12 },
        { name: 'plates', count: 80 },
      ],
    },
    input: v.strictObject({}),
    output: v.strictObject({ items: v.array(v.strictObject({ name: v.string(), count: v.number() })) }),
    run: () =>
      ok({
        items: [
          { name: 'cups', count: 7 },
          { name: 'plates', count: 31 },
        ],
      }),
  });
