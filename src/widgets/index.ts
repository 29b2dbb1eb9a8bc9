// The widgets as MCP resources (MCP Apps), in the order clients see them.

import type { Resource } from '../calls/resource.ts';
import { inlineAssets } from '../lib/inline.ts';
import { once } from '../lib/memoize.ts';
import { WIDGET_TYPE } from '../mcp/apps.ts';
import created from './api-key-created.html' with { type: 'text' };
import listCss from './api-keys-list.css' with { type: 'text' };
import list from './api-keys-list.html' with { type: 'text' };
import listJs from './api-keys-list.js' with { type: 'text' };
import bridge from './bridge.js' with { type: 'text' };
import dom from './dom.js' with { type: 'text' };
import listedKey from './listed-key.js' with { type: 'text' };
import newKey from './new-key.js' with { type: 'text' };
import rotation from './rotation.js' with { type: 'text' };
import rowQuestion from './row-question.js' with { type: 'text' };
import rowSecret from './row-secret.js' with { type: 'text' };
import css from './shared.css' with { type: 'text' };
import uses from './uses.js' with { type: 'text' };

const PARTS = {
  'shared.css': css,
  'api-keys-list.css': listCss,
  'api-keys-list.js': listJs,
  'bridge.js': bridge,
  'listed-key.js': listedKey,
  'new-key.js': newKey,
  'rotation.js': rotation,
  'row-question.js': rowQuestion,
  'row-secret.js': rowSecret,
  'uses.js': uses,
  'dom.js': dom,
};

/** Inlined when first read: most processes never show a widget. */
const page = (source: string) => once(() => ({ text: inlineAssets(source, PARTS) }));

export const widgetResources: readonly Resource[] = [
  {
    uri: 'ui://widget/api-key-created.html',
    name: 'api-key-created',
    title: 'API key created',
    description: 'Shows a new API key once, masked until asked for, with what it may do and when it expires.',
    mimeType: WIDGET_TYPE,
    read: page(created),
    meta: { ui: { prefersBorder: true, permissions: { clipboardWrite: {} } } },
  },
  {
    uri: 'ui://widget/api-keys-list.html',
    name: 'api-keys-list',
    title: 'API keys',
    description: 'Shows API keys with their state, to sort, filter, rotate, revoke and delete.',
    mimeType: WIDGET_TYPE,
    read: page(list),
    meta: { ui: { prefersBorder: true, permissions: { clipboardWrite: {} } } },
  },
];
