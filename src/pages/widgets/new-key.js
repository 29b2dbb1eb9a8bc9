// Draws a new key: masked until the user asks for it, copied without being shown, with settings ready to paste, and
// forgotten on `close`. The key is in the document only while it is shown, and is never matched with a RegExp, because
// RegExp.lastMatch would keep it.

import { change, h, html } from './draw.js';
import {
  copyGesture,
  copyText,
  formats,
  HEADING,
  icon,
  isTime,
  nameOf,
  scopeList,
  select,
  setup,
  timeOf,
} from './parts.js';
import { worksOn } from './question.js';

const COPIED_MS = 2000;
const SCOPES_SHOWN = 8;
const NEAR_MS = 2 * 86_400_000; // an expiry this near shows its hour, too
const KEY = { label: 'API key', before: '', after: '', copy: 'Copy' };
const HEADER = { label: 'Request header', before: 'X-API-Key: ', after: '', copy: 'Copy header' };

/** Returns the settings into which a key is pasted, by client: the text before and after it, and a hint. */
function settingsFor(url) {
  const claude = html`A custom connector with the URL <code>${url}/mcp</code> and, as a request header (Pro, Max and Team),
    <code>x-api-key</code>, whose value is the key.`;
  const entry = `"keys": {\n      "type": "http",\n      "url": "${url}/mcp",\n      "headers": { "X-API-Key": "`;
  const settings = [
    ['MCP clients', `{\n  "mcpServers": {\n    ${entry}`, '" }\n    }\n  }\n}'],
    ['VS Code, in .vscode/mcp.json', `{\n  "servers": {\n    ${entry}`, '" }\n    }\n  }\n}'],
    ['Claude Code', `claude mcp add --transport http keys "${url}/mcp" --header "X-API-Key: `, '"'],
    ['Claude on the web, desktop and phone', '', '', claude],
    ['curl, to try it', `curl -X POST "${url}/tools/whoami" -H "X-API-Key: `, '"'],
  ];
  return settings.map(([label, before, after, hint]) => ({ label, before, after, hint, copy: `Copy for ${label}` }));
}
const SETTINGS = setup.url === null ? [] : settingsFor(setup.url);

/**
 * Creates the view of a new key. `made` is the output of create_api_key or rotate_api_key. `isInRow`: it is shown in
 * the key's row. `saved` is called when the person says so; without it there is no button for that.
 */
export function newKey({ made, isInRow = false, saved }) {
  const shown = {
    ...made,
    key: null,
    secret: made.key, // only here and, while shown, in the document
    isShown: false,
    said: {}, // { label, isCopied }: the result of copying from a box
    isInRow,
    saved,
  };
  return {
    copyButton: placeOf(shown, KEY.copy),
    view: () => shown.secret !== null && viewOf(shown),
    close() {
      Object.assign(shown, { secret: null, said: {} });
      getSelection().removeAllRanges();
    },
  };
}

const placeOf = ({ id, previous }, part) => `${part} of ${previous === undefined ? 'new' : 'rotated'} ${id}`;

async function copyFrom(shown, { label, before, after }) {
  const isCopied = await copyText(before + shown.secret + after);
  if (shown.secret === null) return; // forgotten meanwhile
  const said = { label, isCopied };
  change(shown, { said, isShown: shown.isShown || !isCopied });
  if (!isCopied) return select(placeOf(shown, label)); // which shows it now
  setTimeout(() => {
    if (shown.said === said) change(shown, { said: {} });
  }, COPIED_MS);
}

/** Draws the key and the text around it. Its mask is as long as it, so that nothing moves when it is shown. */
function codeOf(shown, { label, before, after }) {
  const { secret, isShown } = shown;
  const at = placeOf(shown, label);
  if (isShown) return html`<code at=${at}>${before + secret + after}</code>`;
  const prefix = before + secret.slice(0, secret.lastIndexOf('_') + 1);
  const dots = '•'.repeat(before.length + secret.length - prefix.length);
  return html`<code class="muted" at=${at}>
    ${prefix}<span aria-hidden="true">${dots}</span><span class="sr">hidden</span>${after}
  </code>`;
}

function boxOf(shown, box) {
  const isSaid = shown.said.label === box.label;
  const isCopied = isSaid && shown.said.isCopied;
  const word = shown.isShown ? 'Hide' : 'Show';
  const toggle = () => change(shown, { isShown: !shown.isShown, said: {} });
  return html`<div class="field" role="group" aria-label=${box.label}>
    <div class="line box">
      ${codeOf(shown, box)}
      <div class="line">
        ${box === KEY && html`<button at=${placeOf(shown, 'show')} aria-label="${word} key" onclick=${toggle}>${word}</button>`}
        <button class=${box === KEY && 'solid'} at=${placeOf(shown, box.copy)}
          aria-label=${isCopied ? null : box.copy} onclick=${() => copyFrom(shown, box)}>
          ${icon(isCopied ? 'done' : 'copy')}${isCopied ? 'Copied' : 'Copy'}
        </button>
      </div>
    </div>
    <p class=${isSaid && !isCopied ? 'hint' : 'sr'} role="status">
      ${isCopied && 'Copied. Paste it where it is kept safe.'}
      ${isSaid && !isCopied && `It could not be copied from here. It is selected: ${copyGesture()}.`}
    </p>
  </div>`;
}

function viewOf(shown) {
  const { id, name, resource, isInRow, previous, warning, saved } = shown;
  const isElsewhere = typeof resource === 'string' && resource !== setup.url; // this server would refuse the key
  const header = html`<header class="sentence">
    <span class="badge ok">${icon('key')}</span>
    <div>
      <p class="hint">API key ${previous === undefined ? 'created' : 'rotated'}</p>
      ${h(HEADING, {}, nameOf(name))}
    </div>
  </header>`;
  const next = html`<div class="next field">
    <p class="hint">Next: store it where your program reads its secrets, and send it with every request in this header.</p>
    ${boxOf(shown, HEADER)}
  </div>`;
  const settings = html`<div class="next field">
    <p class="hint">Or paste it with ready-made settings around it.</p>
    ${SETTINGS.map(
      (box, index) => html`<details open=${index === 0}>
        <summary>${box.label}</summary>${box.hint && html`<p class="hint">${box.hint}</p>`}${boxOf(shown, box)}
      </details>`,
    )}
  </div>`;
  return html`<div class=${isInRow ? 'inset stack' : 'new-key stack'} at=${isInRow ? `new key of ${id}` : 'new key'}
    tabindex="-1" role="group" aria-label="New key of ${name}">
    ${!isInRow && header}
    ${boxOf(shown, KEY)}
    <p class="sentence warn">
      ${icon('warn')}<span>${String(warning ?? 'Save this key now - it will not be shown again')}</span>
    </p>
    ${factsOf(shown)}
    ${!isInRow && next}
    ${SETTINGS.length > 0 && !isElsewhere && settings}
    ${saved && html`<p><button at=${placeOf(shown, 'saved')} onclick=${saved}>I have saved it</button></p>`}
  </div>`;
}

function factsOf({ scopes, expiresAt, previous }) {
  const { state, overlapHours } = previous ?? {};
  const format = expiresAt - Date.now() < NEAR_MS ? formats.hour : formats.day;
  const end = isTime(expiresAt) ? html`${timeOf(expiresAt)}, on ${format.format(expiresAt)}` : 'Never';
  const listed = Array.isArray(scopes) ? scopes.map(String) : [];
  const worksStill = state === 'until_first_use' && overlapHours > 0;
  return html`<dl>
    <dt>Scopes</dt><dd>${scopeList(listed, SCOPES_SHOWN)}</dd>
    <dt>Expires</dt><dd>${end}</dd>
    ${worksStill && html`<dt>Old key</dt><dd>It ${worksOn(overlapHours)}</dd>`}
    ${state === 'ended' && html`<dt>Old key</dt><dd>It has ended. Programs that still send it are refused.</dd>`}
  </dl>`;
}
