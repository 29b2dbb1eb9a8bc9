// The widgets as MCP resources (MCP Apps), in the order clients see them.

import type { Resource } from '../../calls/resource.ts';
import { once } from '../../ground/cache.ts';
import { inlineAssets } from '../../ground/inline.ts';
import { SERVER_VERSION } from '../../ground/server-info.ts';
import { WIDGET_TYPE } from '../../mcp/client.ts';
import created from './api-key-created.js' with { type: 'text' };
import list from './api-keys-list.js' with { type: 'text' };
import bridge from './bridge.js' with { type: 'text' };
import { COMPONENTS } from './components.ts';
import html from './widget.html' with { type: 'text' };
import widgetFrame from './widget.js' with { type: 'text' };

const PARTS = {
  ...COMPONENTS,
  'api-key-created.js': created,
  'api-keys-list.js': list,
  'bridge.js': bridge,
  'widget.js': widgetFrame,
};

/** Each `{name}` replaced by its text. */
const filled = (page: string, texts: Readonly<Record<string, string>>) =>
  page.replace(/\{(\w+)\}/g, (_, name) => texts[name] ?? '');

/** How soon an ended key is refused, for people. `lagMaxMs`: the bound of other processes. */
export const refusedWithin = (lagMaxMs: number): string =>
  `refused at once, elsewhere within ${lagMaxMs === 1000 ? 'a second' : `${lagMaxMs / 1000} seconds`}`;

export function createWidgets(lagMaxMs: number): readonly Resource[] {
  const widget = (name: string, title: string, description: string): Resource => ({
    uri: `ui://widget/${name}.html`,
    name,
    title,
    description,
    mimeType: WIDGET_TYPE,
    // Made when first read: most processes never show a widget.
    read: once(() => {
      const facts = { title, name, refused: refusedWithin(lagMaxMs), version: SERVER_VERSION };
      return { text: inlineAssets(filled(html, facts), PARTS) };
    }),
    meta: { ui: { prefersBorder: true, permissions: { clipboardWrite: {} } } },
  });
  return [
    widget(
      'api-key-created',
      'API key created',
      'Shows a new API key once, masked until asked for, with what it may do and when it expires.',
    ),
    widget('api-keys-list', 'API keys', 'Shows API keys with their state, to sort, filter, rotate, revoke and delete.'),
  ];
}
