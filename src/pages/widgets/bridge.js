// The widget's half of MCP Apps (protocol 2026-01-26): JSON-RPC 2.0 over postMessage with the window around this one.
// It handles messages, theme and size; what a result means is left to the widget.

import { failed, formatTimes, setup, succeeded, UNREADABLE } from './parts.js';

const INITIALIZE_MS = 5000; // a host responds at once; after this the person is told that none does
const CALL_MS = 120_000; // a tool has 60 s, and a host may first ask the person
/** The name of what a result has for the widget alone, which no model is shown. */
const FOR_WIDGET = 'mcp-key-server/widget';

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const objectOf = (value) => (isObject(value) ? value : {});

/** What became of a call: structuredContent, else the JSON of its first text. What would help is a text of its own. */
function readResult({ structuredContent, content, isError, _meta: meta }) {
  const forWidget = objectOf(meta?.[FOR_WIDGET]);
  const texts = (Array.isArray(content) ? content : [])
    .filter((block) => block?.type === 'text' && typeof block.text === 'string' && block.text !== '')
    .map(({ text }) => text);
  if (isError === true) return failed(texts.join('. ') || UNREADABLE, forWidget);
  const output = isObject(structuredContent) ? structuredContent : parsed(texts[0]);
  return isObject(output) ? succeeded({ ...output, ...forWidget }) : failed(UNREADABLE);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Greets the host and passes on what it sends. `on` has `input(args)`, `result(result, callTool)` (`callTool` is null
 * where it lets widgets call none), `replaceByMessage(sentence)` for what a person must be told instead, and `close()`,
 * after which nothing more comes.
 */
export function connect(name, on) {
  const host = window.parent;
  const waiting = new Map(); // request id → what to do with the response
  let lastId = 0;
  let canCallTools = false;
  let sentSize = '';
  const times = { locale: navigator.language };

  const post = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*'); // the host's origin is not known

  function request(method, params, settle) {
    lastId += 1;
    waiting.set(lastId, settle);
    post({ id: lastId, method, params });
    return lastId;
  }

  /** Resolves to what became of it, also if the host has no answer. */
  function callTool(tool, args) {
    return new Promise((resolve) => {
      const id = request('tools/call', { name: tool, arguments: args }, ({ result, error }) => {
        clearTimeout(timer);
        resolve(typeof error?.message === 'string' ? failed(error.message) : readResult(objectOf(result)));
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
    for (const [key, value] of Object.entries(objectOf(styles?.variables))) {
      if (/^--(color|font|border|shadow)-/.test(key) && typeof value === 'string') style.setProperty(key, value);
    }
    const heightPx = box?.height ?? box?.maxHeight;
    if (heightPx > 0) style.setProperty('--height-max', `${heightPx}px`);
    if (typeof locale === 'string') times.locale = locale;
    if (typeof timeZone === 'string') times.timeZone = timeZone;
    formatTimes(times);
  }

  function close() {
    window.removeEventListener('message', receive);
    resized.disconnect();
    waiting.clear();
    on.close();
    postSize(0); // a host that keeps the frame gives its room back
  }

  const cancelled = () => on.replaceByMessage('The call was cancelled, so there is nothing to show.');
  const handlers = new Map([
    ['ping', () => {}],
    ['ui/resource-teardown', close],
    ['ui/notifications/tool-input', ({ arguments: args }) => on.input(objectOf(args))],
    ['ui/notifications/tool-result', (result) => on.result(readResult(result), canCallTools ? callTool : null)],
    ['ui/notifications/tool-cancelled', cancelled],
    ['ui/notifications/host-context-changed', setContext],
  ]);

  function receive({ source, data }) {
    if (source !== host || !isObject(data) || data.jsonrpc !== '2.0') return;
    const { id, method } = data;
    const settle = waiting.get(id);
    if (typeof method !== 'string') {
      waiting.delete(id);
      return settle?.(data);
    }
    const handle = handlers.get(method);
    const result = handle?.(objectOf(data.params)) ?? {};
    if (id === undefined) return; // a notification
    post(handle ? { id, result } : { id, error: { code: -32601, message: 'Method not found' } });
  }

  function postSize(height) {
    const width = Math.ceil(window.innerWidth);
    if (width === 0 || sentSize === `${width}x${height}`) return; // a hidden frame has no size to tell
    sentSize = `${width}x${height}`;
    post({ method: 'ui/notifications/size-changed', params: { width, height } });
  }
  const root = document.documentElement;
  const resized = new ResizeObserver(() => postSize(Math.ceil(root.getBoundingClientRect().height)));

  if (host === window)
    return on.replaceByMessage('This is a widget for chat apps that show MCP Apps: it has no host here.');
  window.addEventListener('message', receive);
  const isSilent = () => on.replaceByMessage('The chat app around this widget does not answer.');
  const silent = setTimeout(isSilent, INITIALIZE_MS);
  const appInfo = { name, version: setup.version };
  request('ui/initialize', { appInfo, appCapabilities: {}, protocolVersion: '2026-01-26' }, ({ result }) => {
    clearTimeout(silent);
    if (!isObject(result)) return on.replaceByMessage('The chat app around this widget refused to show it.');
    canCallTools = isObject(result.hostCapabilities?.serverTools);
    setContext(objectOf(result.hostContext));
    post({ method: 'ui/notifications/initialized', params: {} });
    resized.observe(root);
  });
}
