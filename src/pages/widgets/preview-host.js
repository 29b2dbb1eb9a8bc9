// Plays the chat app around the widgets of the preview: initializes them, sends them results, and responds to their
// calls.

import { samplesAt } from './samples.js';

const THINK_MS = 400; // long enough to see a widget wait
/** The results of the operator's tools, by name; undefined in the preview of the server's own widgets. */
const { results } = JSON.parse(document.getElementById('setup').textContent);
const samples = samplesAt(Date.now());

const resultOf = (name) =>
  Object.hasOwn(results, name)
    ? results[name]
    : { content: [{ type: 'text', text: `${name} has no sample` }], isError: true };

function outputFor({ name, arguments: { overlapHours } }) {
  if (name !== 'rotate_api_key') return { success: true, message: 'Nothing was changed: this is sample data' };
  const state = overlapHours === 0 ? 'ended' : 'until_first_use';
  return { ...samples['api-key-created'], previous: { state, overlapHours } };
}

window.addEventListener('message', async ({ source, data: { id, method, params } }) => {
  const frame = [...document.querySelectorAll('iframe')].find(({ contentWindow }) => contentWindow === source);
  if (frame === undefined) return;
  const send = (message) => source.postMessage({ jsonrpc: '2.0', ...message }, '*'); // a sandboxed frame has no origin
  if (method === 'ui/initialize') {
    const { theme } = frame.dataset;
    send({ id, result: { hostCapabilities: { serverTools: {} }, hostContext: { theme, locale: navigator.language } } });
  } else if (method === 'ui/notifications/initialized') {
    const result = results ? resultOf(frame.name) : { structuredContent: samples[frame.name] };
    send({ method: 'ui/notifications/tool-result', params: result });
  } else if (method === 'ui/notifications/size-changed') {
    frame.style.height = `${params.height + 2}px`;
  } else if (method === 'tools/call') {
    await new Promise((resolve) => setTimeout(resolve, THINK_MS));
    send({ id, result: results ? resultOf(params.name) : { structuredContent: outputFor(params) } });
  }
});

for (const theme of ['light', 'dark']) {
  const framed = document.querySelector('template').content.cloneNode(true);
  for (const frame of framed.querySelectorAll('iframe')) {
    frame.title = `${frame.name}, ${theme}`;
    frame.dataset.theme = theme;
  }
  document.querySelector('main').append(framed); // last, so that no first message is missed
}
