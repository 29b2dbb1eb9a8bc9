// What a person came to decide: a key for a connection that a client asks for (its request to /authorize is in `connect`),
// or a key for a program without a browser (whose code is in `ask`, '' until it is typed). The key is made when that
// client or program fetches it.

import { html } from '../widgets/html.js';
import { complaint, nameOf, scopeList, setup, timeOf, workButton } from '../widgets/parts.js';
import { keyFields, wantedIn } from './key-form.js';
import { busily, formats, page, refresh, request, set, show } from './session.js';

const CONNECTION_DAYS = 90;
const PROGRAM_DAYS = 30;
const SCOPES_SHOWN = 20;
const PLACE = 'errand';
const LOOK_MS = 3000; // programs ask every five seconds
const LOOKS_MAX = 6;

/** Who gets the key, as the page at /authorize says it. */
function clientOf(redirectUri) {
  if (!URL.canParse(redirectUri)) return 'an unknown client';
  const { protocol, host } = new URL(redirectUri);
  if (protocol === 'https:') return host;
  if (protocol === 'http:') return 'a program on this computer';
  return host === '' ? protocol : `${protocol}//${host}`;
}

/** What is said of it to somebody who has to sign in first. */
export function waitingWords(errand) {
  if (errand === null || errand.done !== undefined) return '';
  const { connect } = errand;
  if (connect === undefined && !setup.asks) return 'On this server no program can ask for a key.';
  const who = connect === undefined ? 'a program' : clientOf(new URLSearchParams(connect).get('redirect_uri'));
  return html`Sign in to decide whether <bdi>${who}</bdi> gets the key that it waits for.`;
}

const leaveIt = () => {
  page.errand = null;
  show(page.view);
  set({}, 'ask', 'new', 'refresh');
};

/** Sends a decision; `done(output)` comes after a success. */
const send = (path, body, done) =>
  busily('decide', async () => {
    const { errand } = page;
    errand.failure = undefined;
    const { output, failure } = await request(path, body);
    if (page.errand !== errand) return;
    if (output !== null) done(output);
    else if (page.session?.token !== undefined) set({ errand: { ...errand, failure } });
  });

const submitted = (act) => (event) => {
  event.preventDefault();
  act(event.target);
};

/** The form that all decisions have; `described` says who asks. */
const decisionForm = ({ described, fields, verb, doing, other, decide }) => html`<form class="card stack" id="create"
  at="decision" aria-labelledby="errand-title" onsubmit=${submitted(decide)}>
  ${described}
  ${keyFields(setup, fields)}
  ${page.errand.failure && complaint(page.errand.failure)}
  <div class="line">
    ${workButton(page.doing.has('decide'), verb, doing, { type: 'submit', class: 'solid', at: 'decide' })}
    ${other}
  </div>
</form>`;

export function errandView({ errand, session }) {
  if (errand.done !== undefined) return doneView(errand);
  if (errand.connect === undefined && !setup.asks)
    return doneView({ done: 'On this server no program can ask for a key.' });
  return errand.connect === undefined ? askView(errand) : connectView(errand, session);
}

const doneView = ({ done }) => html`<section class="card stack">
  <h2 at=${PLACE} tabindex="-1">${done}</h2>
  <div><button type="button" at="to keys" onclick=${leaveIt}>Your keys</button></div>
</section>`;

function connectView({ connect }, { grantable }) {
  const asked = new URLSearchParams(connect);
  const client = clientOf(asked.get('redirect_uri'));
  const wished = (asked.get('scope') ?? '').split(' ').filter(Boolean);
  const mayGrant = (scope) => (setup.scopes?.includes(scope) ?? true) && (grantable?.includes(scope) ?? true);
  const refused = wished.filter((scope) => !mayGrant(scope));
  const decide = (form) =>
    send('/authorize', { ...Object.fromEntries(asked), ...wantedIn(form) }, ({ location: back }) => {
      set({ errand: { done: `The key is handed over when ${client} fetches it. You can close this page.` } }, PLACE);
      location.assign(back);
    });
  return decisionForm({
    described: html`<h2 id="errand-title" at=${PLACE} tabindex="-1">
        <small>A key will be made, and handed to</small> <span class="host">${client}</span>
      </h2>
      <p>
        The key is good for <bdi>${asked.get('resource') ?? setup.url}</bdi> alone. Go on only if you have just asked for
        this connection yourself.
      </p>
      ${refused.length > 0 && html`<p class="hint">It also asked for what you may not give: ${refused.join(' ')}</p>`}`,
    fields: { at: 'name', name: client, ticked: wished.filter(mayGrant), daysUsual: CONNECTION_DAYS },
    verb: 'Make the key and hand it over',
    doing: 'Handing over…',
    other: html`<a href="${setup.url}/authorize?${connect}">Paste a key instead, or cancel</a>`,
    decide,
  });
}

const look = (code) =>
  send('/device/request', { userCode: code }, (asked) => set({ errand: { ask: code, asked } }, PLACE));

function askView({ ask, asked, failure }) {
  if (asked !== undefined) return programView(ask, asked);
  const isBusy = page.doing.has('decide') && 'true';
  const title = html`<h2 id="errand-title" at=${PLACE} tabindex="-1">A program asks for a key</h2>`;
  const typed = html`<form class="field" onsubmit=${submitted((form) => look(new FormData(form).get('code')))}>
    <label for="code">The code that the program shows</label>
    <div class="line">
      <input id="code" name="code" at="code" required maxlength="20" autocomplete="off" autocapitalize="characters"
        spellcheck="false" placeholder="XXXX-XXXX" />
      <button class="solid" at="decide" aria-disabled=${isBusy}>Go on</button>
      <button type="button" at="leave" onclick=${leaveIt}>Cancel</button>
    </div>
  </form>`;
  const confirmed = html`<p>Does the program that you started show this code?</p>
    <p class="host">${ask}</p>
    <div class="line">
      <button type="button" class="solid" at="decide" aria-disabled=${isBusy} onclick=${() => look(ask)}>
        Yes, it shows this code
      </button>
      <button type="button" at="leave" onclick=${leaveIt}>No</button>
    </div>
    <p class="hint">If somebody else sent you this link, say no: the key would be theirs.</p>`;
  return html`<section class="card stack narrow" aria-labelledby="errand-title">
    ${title}${failure && complaint(failure)}${ask === '' ? typed : confirmed}
  </section>`;
}

/** Refreshes the list until another key stands in it, for as long as a program may take that still asks. */
async function lookForKey() {
  const { list } = page;
  const before = list.ids();
  for (let looks = 0; looks < LOOKS_MAX && page.list === list && page.session.token !== undefined; looks++) {
    await refresh(page.notice);
    if (list.ids().some((id) => !before.includes(id))) return set({ notice: 'The list has a new key.' });
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function programView(userCode, { clientName, address, askedAt, resource, scopes }) {
  const nowMs = Date.now();
  const end = (notice) => set({ errand: null, notice }, 'new', 'refresh');
  const decide = (form) =>
    send('/device/decision', { userCode, approve: true, ...wantedIn(form) }, () => {
      end('The program gets its key when it asks next, within seconds. The list shows it then.');
      void lookForKey();
    });
  const refuse = () =>
    send('/device/decision', { userCode, approve: false }, () => end('Refused: the program gets no key.'));
  return decisionForm({
    described: html`<h2 id="errand-title" at=${PLACE} tabindex="-1">A program asks for a key</h2>
      <dl>
        <dt>Calls itself</dt><dd>${clientName === null ? 'nothing' : html`“${nameOf(clientName)}”, in its own words`}</dd>
        <dt>Asks from</dt><dd>${address}, ${timeOf(askedAt, nowMs, formats)}</dd>
        <dt>For</dt><dd><bdi>${resource}</bdi></dd>
        <dt>Would like</dt><dd>${scopeList(scopes, SCOPES_SHOWN)}</dd>
      </dl>
      <p>Whoever started it gets the key. Go on only if that was you, just now.</p>`,
    fields: { at: 'name', name: clientName ?? '', more: scopes, daysUsual: PROGRAM_DAYS },
    verb: 'Make the key',
    doing: 'Deciding…',
    other: html`<button type="button" at="refuse" onclick=${refuse}>Refuse</button>`,
    decide,
  });
}
