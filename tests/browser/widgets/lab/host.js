// The host's half of MCP Apps (protocol 2026-01-26), for pages of this server that show widgets in sandboxed frames: it
// greets the widget, hands it results, and passes on its calls. What a call does is left to the page.

/**
 * Talks with the widget in `frame`. `on` has `hello()`, what the widget is told of its host; `ready()`, from when on it
 * takes results; `call(params)`, the result of a tool, or a promise of it that may never be kept; `resized(height)`;
 * and, if wanted, `seen(arrow, message)` for every message.
 */
export function hostWidget(frame, on) {
  const requests = new Map([
    ['ui/initialize', () => ({ protocolVersion: '2026-01-26', ...on.hello() })],
    ['tools/call', on.call],
    ['ping', () => ({})],
  ]);
  const notifications = new Map([
    ['ui/notifications/initialized', on.ready],
    ['ui/notifications/size-changed', on.resized],
  ]);

  function send(message) {
    const whole = { jsonrpc: '2.0', ...message };
    on.seen?.('←', whole);
    frame.contentWindow?.postMessage(whole, '*'); // sandboxed frames have no origin to name
  }

  async function receive({ source, data }) {
    if (source === null || source !== frame.contentWindow || data?.jsonrpc !== '2.0') return;
    on.seen?.('→', data);
    const { id, method, params = {} } = data;
    if (id === undefined) return notifications.get(method)?.(params);
    if (method === undefined) return; // a response
    const handle = requests.get(method);
    const error = { code: -32601, message: 'Method not found' };
    send(handle ? { id, result: await handle(params) } : { id, error });
  }
  window.addEventListener('message', receive);

  return {
    notify: (method, params) => send({ method: `ui/notifications/${method}`, params }),
    tearDown: () => send({ id: `teardown-${frame.name}`, method: 'ui/resource-teardown', params: {} }),
    close: () => window.removeEventListener('message', receive),
  };
}
