// The widget of create_api_key and rotate_api_key: shows the new key. It never outlives close().

import { connect } from './bridge.js';
import { draw } from './draw.js';
import { html } from './html.js';
import { newKey } from './new-key.js';
import { complaint, formatsOf } from './parts.js';
import { failureOf, outputOf } from './results.js';

const said = (words) => html`<p class="sentence" role="status">${words}</p>`;
const root = document.querySelector('main');
let formats;
let made = null;
let sentence = said('Creating the key…');

const redraw = () => draw(root, made === null ? sentence : made.view());

function say(words, isBad = true) {
  made?.forget();
  made = null;
  sentence = isBad ? complaint(words) : said(words);
  redraw();
}

redraw();
connect('api-key-created', {
  ready: (bridge) => {
    formats = formatsOf(bridge);
  },
  input({ name, keyId }) {
    if (made !== null) return;
    if (typeof name === 'string') say(html`<span>Creating “<bdi>${name}</bdi>”…</span>`, false);
    else if (keyId !== undefined) say('Rotating the key…', false);
  },
  result(result) {
    const output = outputOf(result);
    if (typeof output?.key !== 'string' || output.key === '') return say(`No key to show. ${failureOf(result)}`);
    made?.forget();
    made = newKey({ made: output, heading: 'h1', formats, serverUrl: null, redraw });
    redraw();
  },
  replaceByMessage: say,
  close: () => say('This widget is closed.', false),
});
