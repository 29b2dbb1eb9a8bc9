// The lab: a host that responds to the widgets from sample data, and lists every message.

const LOGGED_CHARS_MAX = 4000; // of one message
const THINK_MS = 100; // how long a tool call takes here, so that the widget can be seen waiting
const HEIGHT_MAX = 640;
const ROOM_MAX = 2 * HEIGHT_MAX; // for a widget that takes more than it was told

const { samples, rotated, colours, chosen } = JSON.parse(document.getElementById('setup').textContent);
const darkSystem = matchMedia('(prefers-color-scheme: dark)');
const frames = () => [...document.querySelectorAll('iframe')];

/** What a widget is told of the theme. */
function look() {
  const isDark = chosen.theme === 'dark' || (chosen.theme === 'system' && darkSystem.matches);
  const variables = Object.entries(colours).map(([name, value]) => [name, chosen.theme === 'sepia' ? value : '']);
  return { theme: isDark ? 'dark' : 'light', styles: { variables: Object.fromEntries(variables) } };
}

function callTool({ name, arguments: args }) {
  if (chosen.calls === 'fail') {
    return { isError: true, content: [{ type: 'text', text: 'The key store is out of reach; try again' }] };
  }
  if (name === 'rotate_api_key') return rotate(args);
  const message = name === 'revoke_api_key' ? 'API key revoked successfully' : 'API key deleted permanently';
  return resultOf({ success: true, message });
}

function rotate({ keyId: id, overlapHours }) {
  const state = overlapHours === 0 ? 'ended' : 'until_first_use';
  return { ...rotated, ...resultOf({ ...rotated.structuredContent, id, previous: { state, overlapHours } }) };
}

const resultOf = (output) => ({ content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output });

function send(frame, message) {
  const whole = { jsonrpc: '2.0', ...message };
  log(frame, '←', whole);
  frame.contentWindow.postMessage(whole, '*'); // sandboxed frames have no origin to name
}

const notify = (frame, method, params) => send(frame, { method: `ui/notifications/${method}`, params });

/** The results of requests, and what comes of notifications. */
const HANDLERS = {
  'ui/initialize': (frame) => ({
    protocolVersion: '2026-01-26',
    hostInfo: { name: 'widget-lab', version: '1.0.0' },
    hostCapabilities: chosen.calls === 'off' ? {} : { serverTools: {} },
    hostContext: {
      ...look(),
      containerDimensions: { width: frame.clientWidth, maxHeight: HEIGHT_MAX },
      displayMode: 'inline',
      locale: navigator.language,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
  }),
  'ui/notifications/initialized'(frame) {
    const { input, result } = samples[frame.name];
    notify(frame, 'tool-input', { arguments: input });
    notify(frame, 'tool-result', result);
  },
  'ui/notifications/size-changed'(frame, { height }) {
    frame.style.height = `${Math.min(height, ROOM_MAX) + 2}px`;
  },
  async 'tools/call'(_, params) {
    await new Promise((resolve) => chosen.calls !== 'silent' && setTimeout(resolve, THINK_MS));
    return callTool(params);
  },
};

window.addEventListener('message', async ({ source, data }) => {
  const frame = frames().find(({ contentWindow }) => contentWindow === source);
  if (frame === undefined) return;
  log(frame, '→', data);
  const { id, method, params } = data;
  const result = await HANDLERS[method]?.(frame, params);
  if (result !== undefined) send(frame, { id, result });
});

function log(frame, arrow, message) {
  const { method = 'response to', id } = message;
  const summary = document.createElement('summary');
  summary.append(`${frame.name} ${arrow} host: ${method}${id === undefined ? '' : ` #${id}`}`);
  const json = JSON.stringify(message, null, 2);
  const text = document.createElement('pre');
  const rest = json.length - LOGGED_CHARS_MAX;
  text.append(rest > 0 ? `${json.slice(0, LOGGED_CHARS_MAX)}\n… and ${rest} characters more` : json);
  const details = document.createElement('details');
  details.append(summary, text);
  const item = document.createElement('li');
  item.append(details);
  document.querySelector('ol').append(item);
}

function show() {
  document.documentElement.dataset.theme = look().theme;
  for (const frame of frames()) notify(frame, 'host-context-changed', look());
}

darkSystem.addEventListener('change', show);
document.querySelector('nav').addEventListener('click', ({ target }) => {
  if (target.id === 'teardown') {
    for (const frame of frames())
      send(frame, { id: `teardown-${frame.name}`, method: 'ui/resource-teardown', params: {} });
  } else {
    chosen.theme = target.textContent;
    show();
  }
});

show();
const framed = document.querySelector('template').content;
for (const frame of framed.children) {
  if (chosen.width !== 'auto') frame.style.flex = `0 0 ${Number(chosen.width) + 2}px`;
}
document.querySelector('main').append(framed); // only now, so that the first message is not missed
