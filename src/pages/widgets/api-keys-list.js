// The widget of list_api_keys: shows the list of keys, which calls tools through the host if it allows that.

import { html } from './draw.js';
import { keysList } from './keys-list.js';
import { widget } from './widget.js';

const HINTS = html`<p class="hint">A key lets a program call this server on your behalf. To make the first one, ask in this chat:</p>
  <q>Create an API key named “billing export” with the scope read that expires in 30 days</q>`;

widget('api-keys-list', {
  loading: 'Loading keys…',
  nothing: 'No keys to show.',
  underWay() {},
  show(result, callTool, shown) {
    if (!Array.isArray(result.output?.keys)) return null;
    const source = { tool: 'list_api_keys', args: {} };
    const list = shown ?? keysList({ callTool, source, title: 'API keys', hints: HINTS });
    list.take(result);
    return list;
  },
});
