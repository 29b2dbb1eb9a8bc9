// The widget's half of MCP Apps (protocol 2026-01-26): JSON-RPC 2.0 over postMessage with the window around this one.
// It handles messages, theme and size; what a result means is left to the widget.

import { setup } from './parts.js';
import { failed, isObject, readResult } from './results.js';

const INITIALIZE_MS = 5000; // a host responds at once; after this the person is told that none does
const CALL_MS = 120_000; // a tool has 60 s, and a host may first ask the person

/**
 * Greets the host and passes on what it sends. `on` has `input(args)`, `result(result, bridge)` (results.js),
 * `replaceByMessage(sentence)` for what a person must be told instead, and `close()`, after which nothing more comes.
 */
export function connect(name, on) {
  const host = window.parent;
  const waiting = new Map(); // request id → what to do with the response
  const bridge = { canCallTools: false, locale: 'en', timeZone: undefined, callTool };
  let lastId = 0;

  const post = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*'); // the host's origin is not known

  function request(method, params, settle) {
    lastId += 1;
    waiting.set(lastId, settle);
    post({ id: lastId, method, params });
    return lastId;
  }

  /** Resolves to what became of it (results.js), also if the host has no answer. */
  function callTool(tool, args) {
    return new Promise((resolve) => {
      const id = request('tools/call', { name: tool, arguments: args }, ({ result, error }) => {
        clearTimeout(timer);
        resolve(
          typeof error?.message === 'string' ? failed(error.message) : readResult(isObject(result) ? result : {}),
        );
      });
      const timer = setTimeout(() => {
        waiting.delete(id);
        resolve(failed('No answer came. It may have worked all the same: list the keys again to see.'));
      }, CALL_MS);
    });
  }

  function setContext({ theme, styles, locale, timeZone, containerDimensions: box }) {
    const { style, dataset } = document.documentElement;
    if (theme === 'light' || theme === 'dark') {
      dataset.theme = theme;
      style.colorScheme = theme;
    }
    for (const [key, value] of Object.entries(isObject(styles?.variables) ? styles.variables : {})) {
      if (/^--(color|font|border|shadow)-/.test(key) && typeof value === 'string') style.setProperty(key, value);
    }
    const heightPx = box?.height ?? box?.maxHeight;
    if (heightPx > 0) style.setProperty('--height-max', `${heightPx}px`);
    if (typeof locale === 'string') bridge.locale = locale;
    if (typeof timeZone === 'string') bridge.timeZone = timeZone;
  }

  function close() {
    window.removeEventListener('message', receive);
    resized.disconnect();
    waiting.clear();
    on.close();
    postSize(0); // a host that keeps the frame gives its room back
    return {};
  }

  const requests = new Map([
    ['ping', () => ({})],
    ['ui/resource-teardown', close],
  ]);
  const notifications = new Map([
    ['ui/notifications/tool-input', ({ arguments: args }) => on.input(isObject(args) ? args : {})],
    ['ui/notifications/tool-result', (result) => on.result(readResult(result), bridge)],
    [
      'ui/notifications/tool-cancelled',
      () => on.replaceByMessage('The call was cancelled, so there is nothing to show.'),
    ],
    ['ui/notifications/host-context-changed', setContext],
  ]);

  function receive({ source, data }) {
    if (source !== host || !isObject(data) || data.jsonrpc !== '2.0') return;
    const { id, method } = data;
    const params = isObject(data.params) ? data.params : {};
    if (typeof method !== 'string') {
      const settle = waiting.get(id);
      waiting.delete(id);
      settle?.(data);
    } else if (id === undefined) {
      notifications.get(method)?.(params);
    } else {
      const handle = requests.get(method);
      post(handle ? { id, result: handle(params) } : { id, error: { code: -32601, message: 'Method not found' } });
    }
  }

  let sent = '';
  function postSize(height) {
    const width = Math.ceil(window.innerWidth);
    if (width === 0 || sent === `${width}x${height}`) return; // a hidden frame has no size to tell
    sent = `${width}x${height}`;
    post({ method: 'ui/notifications/size-changed', params: { width, height } });
  }
  const resized = new ResizeObserver(() =>
    postSize(Math.ceil(document.documentElement.getBoundingClientRect().height)),
  );

  if (host === window)
    return on.replaceByMessage('This is a widget for chat apps that show MCP Apps: it has no host here.');
  window.addEventListener('message', receive);
  const silent = setTimeout(
    () => on.replaceByMessage('The chat app around this widget does not answer.'),
    INITIALIZE_MS,
  );
  const hello = {
    appInfo: { name, version: setup.version },
    appCapabilities: {},
    protocolVersion: '2026-01-26',
  };
  request('ui/initialize', hello, ({ result }) => {
    clearTimeout(silent);
    if (!isObject(result)) return on.replaceByMessage('The chat app around this widget refused to show it.');
    bridge.canCallTools = isObject(result.hostCapabilities?.serverTools);
    setContext(isObject(result.hostContext) ? result.hostContext : {});
    post({ method: 'ui/notifications/initialized', params: {} });
    resized.observe(document.documentElement);
  });
}
