// A widget: a component with what its tool returned, or a sentence in its place. This is its half of MCP Apps (protocol
// 2026-01-26): JSON-RPC 2.0 over postMessage with the window around it.

import { html, mount, redraw } from './draw.js';
import { complaint, failed, formatTimes, setup, succeeded, UNREADABLE } from './parts.js';

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

const times = { locale: navigator.language }; // until the host says otherwise

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

/**
 * `loading`, `nothing`: what is said until a result comes, and of one that has nothing to show. `underWay(args)`: what is
 * said of a call that has begun; undefined: nothing new. `show(result, callTool, component)` gives the component for
 * what the tool returned, from the one that is shown, if any; null: there is nothing to show. `callTool` is null where
 * the host lets widgets call none.
 */
export function widget(name, { loading, nothing, underWay, show }) {
  const said = (words) => html`<p class="sentence" role="status"><span>${words}</span></p>`;
  let sentence = said(loading);
  let component = null;
  const host = window.parent;
  const waiting = new Map(); // request id → what to do with the response
  let lastId = 0;
  let canCallTools = false;
  let sentSize = '';

  function say(description) {
    component?.close();
    component = null;
    sentence = description;
    redraw();
  }
  const complain = (words) => say(complaint(words));

  function takeInput({ arguments: args }) {
    const words = component === null ? underWay(objectOf(args)) : undefined;
    if (words !== undefined) say(said(words));
  }

  function takeResult(params) {
    const result = readResult(params);
    const shown = show(result, canCallTools ? callTool : null, component);
    if (shown === null) return complain(`${nothing} ${result.failure}`);
    if (shown !== component) component?.close();
    component = shown;
    redraw();
  }

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

  function close() {
    window.removeEventListener('message', receive);
    resized.disconnect();
    waiting.clear();
    say(said('This widget is closed.'));
    postSize(0); // a host that keeps the frame gives its room back
  }

  const handlers = new Map([
    ['ping', () => {}],
    ['ui/resource-teardown', close],
    ['ui/notifications/tool-input', takeInput],
    ['ui/notifications/tool-result', takeResult],
    ['ui/notifications/tool-cancelled', () => complain('The call was cancelled, so there is nothing to show.')],
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

  mount(() => html`<main>${component === null ? html`<div class="empty">${sentence}</div>` : component.view()}</main>`);
  if (host === window) return complain('This is a widget for chat apps that show MCP Apps: it has no host here.');
  window.addEventListener('message', receive);
  const isSilent = () => complain('The chat app around this widget does not answer.');
  const silent = setTimeout(isSilent, INITIALIZE_MS);
  const appInfo = { name, version: setup.version };
  request('ui/initialize', { appInfo, appCapabilities: {}, protocolVersion: '2026-01-26' }, ({ result }) => {
    clearTimeout(silent);
    if (!isObject(result)) return complain('The chat app around this widget refused to show it.');
    canCallTools = isObject(result.hostCapabilities?.serverTools);
    setContext(objectOf(result.hostContext));
    post({ method: 'ui/notifications/initialized', params: {} });
    resized.observe(root);
  });
}
