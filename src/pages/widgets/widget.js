// Runs a widget: shows a component with the tool's result, or a sentence instead. Implements the widget's side of MCP
// Apps (protocol 2026-01-26): JSON-RPC 2.0 over postMessage with the host's window.

import { html, mount, redraw } from './draw.js';
import { complaint, failed, formatTimes, setup, succeeded, UNREADABLE } from './parts.js';

const INITIALIZE_MS = 5000; // hosts respond at once; after this the widget says that none does
const CALL_MS = 120_000; // a tool has 60 s, and a host may first ask the person
/** The field of a result that is only for the widget, hidden from the model. */
const FOR_WIDGET = 'mcp-key-server/widget';

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const objectOf = (value) => (isObject(value) ? value : {});

/** Reads the outcome of a call: structuredContent, or the JSON of its first text. A refusal's hint is another text. */
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

/** Creates a JSON-RPC connection with the host's window. `handlers`, by method, return a result, or nothing. */
function createConnection(handlers) {
  const host = window.parent;
  const waiting = new Map(); // request id → what to do with the response
  let lastId = 0;

  const post = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*'); // the host's origin is unknown

  function request(method, params, settle) {
    lastId += 1;
    waiting.set(lastId, settle);
    post({ id: lastId, method, params });
    return lastId;
  }

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

  return {
    post,
    request,
    open: () => window.addEventListener('message', receive),
    close() {
      window.removeEventListener('message', receive);
      waiting.clear();
    },
    /** Calls a tool. Resolves with the outcome, even if the host doesn't answer. */
    callTool: (tool, args) =>
      new Promise((resolve) => {
        const id = request('tools/call', { name: tool, arguments: args }, ({ result, error }) => {
          clearTimeout(timer);
          const { message } = objectOf(error);
          const isSentence = typeof message === 'string' && message !== '';
          resolve(isSentence ? failed(message) : readResult(objectOf(result)));
        });
        const timer = setTimeout(() => {
          waiting.delete(id);
          resolve(failed('No answer came. It may have worked all the same: list the keys again to see.'));
        }, CALL_MS);
      }),
  };
}

const said = (words) => html`<p class="sentence" role="status"><span>${words}</span></p>`;

/** Creates the view of the widget: a component with the tool's result, or a sentence. */
function createStage({ loading, nothing, underWay, show }) {
  let sentence = said(loading);
  let component = null;

  function say(description) {
    component?.close();
    component = null;
    sentence = description;
    redraw();
  }
  const complain = (words) => say(complaint(words));

  return {
    say,
    complain,
    view: () =>
      html`<main>${component === null ? html`<div class="empty">${sentence}</div>` : component.view()}</main>`,
    takeInput({ arguments: args }) {
      const words = component === null ? underWay(objectOf(args)) : undefined;
      if (words !== undefined) say(said(words));
    },
    takeResult(params, callTool) {
      const result = readResult(params);
      const shown = show(result, callTool, component);
      if (shown === null) return complain(`${nothing} ${result.failure}`);
      if (shown !== component) component?.close();
      component = shown;
      redraw();
    },
  };
}

/** Creates what tells the host the widget's size whenever it changes. */
function createSizes(post) {
  const root = document.documentElement;
  let sentSize = '';
  function postSize(height) {
    const width = Math.ceil(window.innerWidth);
    if (width === 0 || sentSize === `${width}x${height}`) return; // a hidden frame has no size
    sentSize = `${width}x${height}`;
    post({ method: 'ui/notifications/size-changed', params: { width, height } });
  }
  const resized = new ResizeObserver(() => postSize(Math.ceil(root.getBoundingClientRect().height)));
  return {
    watch: () => resized.observe(root),
    close: () => resized.disconnect(),
    postNone: () => postSize(0),
  };
}

/**
 * Starts a widget. It says `loading` until a result comes, and `nothing` if that has nothing to show. `underWay(args)`
 * returns what to say of a call that has begun; undefined to keep the words. `show(result, callTool, component)`
 * returns the component for the result, given the shown one, if any; null if there is nothing to show. `callTool` is
 * null if the host doesn't let widgets call tools.
 */
export function widget(name, parts) {
  const stage = createStage(parts);
  const { complain } = stage;
  let canCallTools = false;

  function close() {
    connection.close();
    sizes.close();
    stage.say(said('This widget is closed.'));
    sizes.postNone(); // a host that keeps the frame can reuse its room
  }

  const connection = createConnection(
    new Map([
      ['ping', () => {}],
      ['ui/resource-teardown', close],
      ['ui/notifications/tool-input', stage.takeInput],
      ['ui/notifications/tool-result', (result) => stage.takeResult(result, canCallTools ? connection.callTool : null)],
      ['ui/notifications/tool-cancelled', () => complain('The call was cancelled, so there is nothing to show.')],
      ['ui/notifications/host-context-changed', setContext],
    ]),
  );
  const sizes = createSizes(connection.post);

  mount(stage.view);
  if (window.parent === window)
    return complain('This is a widget for chat apps that show MCP Apps: it has no host here.');
  connection.open();
  const silent = setTimeout(() => complain('The chat app around this widget does not answer.'), INITIALIZE_MS);
  const appInfo = { name, version: setup.version };
  const asked = { appInfo, appCapabilities: {}, protocolVersion: '2026-01-26' };
  connection.request('ui/initialize', asked, ({ result }) => {
    clearTimeout(silent);
    if (!isObject(result)) return complain('The chat app around this widget refused to show it.');
    canCallTools = isObject(result.hostCapabilities?.serverTools);
    setContext(objectOf(result.hostContext));
    connection.post({ method: 'ui/notifications/initialized', params: {} });
    sizes.watch();
  });
}
