// The widget of list_api_keys: the list of keys, which calls tools through the host, if it lets widgets do that.

import { connect } from './bridge.js';
import { draw } from './draw.js';
import { html } from './html.js';
import { keysList } from './keys-list.js';
import { complaint, formatsOf } from './parts.js';
import { failureOf, outputOf } from './results.js';

const said = (words) => html`<p class="sentence" role="status">${words}</p>`;
const root = document.querySelector('main');
let list = null;
let sentence = said('Loading keys…'); // null: the list is shown

const redraw = () => draw(root, sentence ?? list.view());

function say(words, isBad = true) {
  sentence = isBad ? complaint(words) : said(words);
  if (list === null) redraw();
  else list.take({ keys: [] });
}

redraw();
connect('api-keys-list', {
  ready(bridge) {
    list = keysList({
      callTool: bridge.canCallTools ? bridge.callTool : null,
      source: { tool: 'list_api_keys', args: {} },
      heading: 'h1',
      title: 'API keys',
      none: {
        title: 'No API keys yet',
        hints: html`<p>
            A key lets a program call this server on your behalf. To make the first one, ask in this chat:
          </p>
          <q>Create an API key named “billing export” with the scope read that expires in 30 days</q>`,
      },
      refused: document.body.dataset.refused,
      serverUrl: null,
      scrolls: true,
      formats: formatsOf(bridge),
      redraw,
    });
  },
  input() {},
  result(result) {
    const output = outputOf(result);
    if (!Array.isArray(output?.keys)) return say(`No keys to show. ${failureOf(result)}`);
    sentence = null;
    list.take(output);
  },
  replaceByMessage: say,
  close() {
    list?.close();
    say('This widget is closed.', false);
  },
});
