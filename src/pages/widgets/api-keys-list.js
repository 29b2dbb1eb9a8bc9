// The widget of list_api_keys: shows the list of keys, or of a key's children, which calls tools through the host if it
// allows that.

import { html } from './draw.js';
import { keysList } from './keys-list.js';
import { OWN_CALLS } from './question.js';
import { widget } from './widget.js';

const HINTS = html`<p class="hint">A key lets a program call this server on your behalf. To make the first one, ask in this chat:</p>
  <q>Create an API key named “billing export” with the scope read that expires in 30 days</q>`;

let args = {}; // of the tool, without a cursor

/** Returns what differs in a list of children: they can only be ended. */
const ofChildren = () => ({
  title: 'Keys for its programs',
  none: 'No keys for its programs',
  hints: null,
  calls: { revoke: OWN_CALLS.revoke },
});

widget('api-keys-list', {
  loading: 'Loading keys…',
  nothing: 'No keys to show.',
  underWay({ childrenOf }) {
    args = typeof childrenOf === 'string' ? { childrenOf } : {};
  },
  show(result, callTool, shown) {
    if (!Array.isArray(result.output?.keys)) return null;
    const source = { tool: 'list_api_keys', args };
    const own = { title: 'API keys', hints: HINTS };
    const list = shown ?? keysList({ callTool, source, ...(args.childrenOf === undefined ? own : ofChildren()) });
    list.take(result);
    return list;
  },
});
