// The lab: responds to the widgets from sample data, and lists every message.

import { hostWidget } from './host.js';

const LOG_MAX = 200; // entries; the oldest go first
const LOGGED_CHARS_MAX = 4000; // of one message
const THINK_MS = 400; // how long a tool call takes here, so that the widget can be seen waiting
const HEIGHT_MAX = 640;

const byId = (id) => document.getElementById(id);
const setup = JSON.parse(byId('setup').textContent);
const { samples, rotated, colours } = setup;
const chosen = { ...setup.defaults, ...Object.fromEntries(new URLSearchParams(location.search)) };
const agedMs = Date.now() - setup.madeAtMs; // the page is the same at any time
const INSTANT = ['theme', 'width']; // choices that take effect without a new page
const darkSystem = matchMedia('(prefers-color-scheme: dark)');
const theme = () => (chosen.theme === 'system' ? (darkSystem.matches ? 'dark' : 'light') : chosen.theme);

const context = (frame) => ({
  theme: theme() === 'dark' ? 'dark' : 'light',
  styles: { variables: chosen.theme === 'sepia' ? colours : blank(colours) },
  containerDimensions: { width: frame.clientWidth, maxHeight: HEIGHT_MAX },
  displayMode: 'inline',
  locale: navigator.language,
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
});
const blank = (variables) => Object.fromEntries(Object.keys(variables).map((name) => [name, '']));
const frames = () => Array.from(document.querySelectorAll('iframe'));

function callTool({ name, arguments: args }) {
  const message = name === 'revoke_api_key' ? 'API key revoked successfully' : 'API key deleted permanently';
  if (chosen.calls === 'fail') {
    return { isError: true, content: [{ type: 'text', text: 'The key store is out of reach; try again' }] };
  }
  if (name === 'rotate_api_key') return rotate(args);
  const output = { success: true, message };
  return { content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output };
}

function rotate({ keyId: id, overlapHours }) {
  const state = overlapHours === 0 ? 'ended' : 'until_first_use';
  const output = { ...moved(rotated.structuredContent), id, previous: { state, overlapHours } };
  return { ...rotated, content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output };
}

/** The sample with its times moved to today. */
function upToDate({ input, result }) {
  const { structuredContent: made } = result;
  if (made === undefined) return { input, result };
  const output = made.keys === undefined ? moved(made) : { keys: made.keys.map(movedKey) };
  const content = [{ type: 'text', text: JSON.stringify(output) }];
  return { input, result: { ...result, content, structuredContent: output } };
}
const moved = (times) =>
  Object.fromEntries(Object.entries(times).map(([name, at]) => [name, typeof at === 'number' ? at + agedMs : at]));

const movedKey = ({ rotation, ...key }) => ({ ...moved(key), ...(rotation && { rotation: moved(rotation) }) });

function host(frame) {
  const talk = hostWidget(frame, {
    hello: () => ({
      hostInfo: { name: 'widget-lab', version: '1.0.0' },
      hostCapabilities: chosen.calls === 'off' ? {} : { serverTools: {} },
      hostContext: context(frame),
    }),
    ready() {
      const { input, result } = upToDate(samples[frame.name]);
      talk.notify('tool-input', { arguments: input });
      talk.notify('tool-result', result);
    },
    async call(params) {
      await new Promise((resolve) => chosen.calls !== 'silent' && setTimeout(resolve, THINK_MS));
      return callTool(params);
    },
    resized({ height }) {
      frame.style.height = `${Math.min(height, 2 * HEIGHT_MAX) + 2}px`;
      frame.parentElement.querySelector('output').textContent = `${frame.clientWidth} × ${height}`;
    },
    seen: (arrow, message) => log(frame, arrow, message),
  });
  return talk;
}

function log(frame, arrow, message) {
  const { method, id, error } = message;
  const what = method ?? (error ? `error to #${id}` : `response to #${id}`);
  const who = document.createElement('i');
  who.textContent = `${frame.name} ${arrow} host`;
  const summary = document.createElement('summary');
  summary.append(who, method !== undefined && id !== undefined ? `${what} #${id}` : what);
  const json = JSON.stringify(message, null, 2);
  const text = document.createElement('pre');
  const rest = json.length - LOGGED_CHARS_MAX;
  text.textContent = rest > 0 ? `${json.slice(0, LOGGED_CHARS_MAX)}\n… and ${rest} characters more` : json;
  const details = document.createElement('details');
  details.append(summary, text);
  const item = document.createElement('li');
  item.append(details);
  const list = byId('log');
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
  list.append(item);
  while (list.children.length > LOG_MAX) list.firstElementChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

function choose(param, value) {
  chosen[param] = value;
  const url = new URL(location.href);
  url.searchParams.set(param, value);
  history.replaceState(null, '', url);
  show();
  if (param === 'theme') tellTheme();
}

function tellTheme() {
  for (const frame of frames()) {
    const { theme, styles } = context(frame);
    hosts.get(frame).notify('host-context-changed', { theme, styles });
  }
}

darkSystem.addEventListener('change', () => {
  if (chosen.theme !== 'system') return;
  show();
  tellTheme();
});

function show() {
  document.documentElement.dataset.theme = theme();
  byId('frames').dataset.width = chosen.width;
  for (const frame of frames()) {
    frame.parentElement.style.flex = chosen.width === 'auto' ? '' : `0 0 ${Number(chosen.width) + 2}px`;
  }
  for (const link of document.querySelectorAll('nav a')) {
    const { param, value } = link.dataset;
    const url = new URL(location.href);
    url.searchParams.set(param, value);
    link.href = url.search;
    if (chosen[param] === value) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  }
}

document.querySelector('nav').addEventListener('click', (event) => {
  const { param, value } = event.target.dataset;
  if (!INSTANT.includes(param) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  choose(param, value);
});
byId('clear').addEventListener('click', () => byId('log').replaceChildren());
byId('teardown').addEventListener('click', () => {
  for (const { tearDown } of hosts.values()) tearDown();
});

const hosted = byId('hosted').content;
const hosts = new Map(Array.from(hosted.querySelectorAll('iframe'), (frame) => [frame, host(frame)]));
byId('frames').append(hosted); // only now, so that the first message is not missed
show();
