// Draws and sends what a person decides: a key of their own (`create`), one for a client's connection (`connect` is its
// request to /authorize), or one for a program without a browser (`ask` is its code, '' until typed). The last two are
// created when the client or program fetches them.

import { html } from '../../pages/widgets/draw.js';
import { textOrNull } from '../../pages/widgets/key-row.js';
import { newKey } from '../../pages/widgets/new-key.js';
import { busily, complaint, nameOf, scopeList, setup, timeOf, workButton } from '../../pages/widgets/parts.js';
import { typedHere, typeHere } from './drafts.js';
import { GIVES, keyForm } from './key-form.js';
import { isOwn, jsonIn, page, request, set } from './session.js';

const UNKNOWN = 'an unknown client';
const CONNECTION_DAYS = 90;
const PROGRAM_DAYS = 30;
const SCOPES_SHOWN = 20;
/** What a key can have (ground/text.ts). */
const SCOPE = /^[!#-[\]-~]{1,100}$/;
const LOOK_MS = 3000; // programs poll every five seconds
const LOOKS_MAX = 6;

/** Describes who gets a connection's key, as /authorize does: `place` for the heading, `says` below it, `name` for the key. */
function receiverOf(asked) {
  const [redirectUri, clientId] = [asked.get('redirect_uri'), asked.get('client_id')];
  if (!URL.canParse(redirectUri)) return { place: UNKNOWN, says: false, name: UNKNOWN };
  const { protocol, host } = new URL(redirectUri);
  const [document, name] = [documentHostOf(clientId), nameIn(clientId)];
  const saysItIs = document && html`It says that it is <bdi>${document}</bdi>, which nobody can prove.`;
  if (protocol === 'https:') {
    const isListed = setup.clients !== null && new RegExp(setup.clients).test(clientId);
    return { place: host, says: isListed ? html`Identified by <bdi>${document}</bdi>.` : saysItIs, name: host };
  }
  const kind = `${protocol === 'http:' ? 'a program' : 'an app'} on this computer`;
  if (document) return { place: kind, says: saysItIs, name: `${document}, on this computer` };
  if (protocol !== 'http:') {
    const place = host === '' ? protocol : `${protocol}//${host}`;
    return { place, says: false, name: place };
  }
  const says = name && html`It calls itself "<bdi>${nameOf(name)}</bdi>".`;
  return { place: kind, says, name: name ? `${name}, on this computer` : kind };
}

/** Returns the host of a client whose id is the URL of its document. */
const documentHostOf = (clientId) =>
  clientId?.startsWith('https://') && URL.canParse(clientId) && new URL(clientId).host;

/** Returns the name of a registered client, which its id contains. The server checks the id. */
const nameIn = (clientId) => textOrNull(jsonIn(clientId?.split('.')[0])?.[0]);

/** Returns the words about the task for somebody who must sign in first. */
export function waitingWords(task) {
  if (isOwn(task)) return '';
  const who = task.connect === undefined ? 'a program' : receiverOf(new URLSearchParams(task.connect)).place;
  return html`Sign in to decide whether <bdi>${who}</bdi> gets the key that it waits for.`;
}

export function taskView(task) {
  if (task.create) return createView(task);
  if (task.connect !== undefined) return connectView(task);
  return task.asked === undefined ? codeView(task) : programView(task);
}

/** Takes up what a link asks for. What the person has typed is kept until that is left. */
export function takeUp(asked) {
  const begun = isOwn(page.task) ? typedHere() : page.task.begun;
  set({ task: { ...asked, begun } }, asked.ask === '' ? 'code' : 'task');
}

/** Ends the task, and shows `notice` beside what the person had typed before. */
function leave(notice = '') {
  const { task, rows } = page.task.begun ?? {};
  set({ task: task?.typed?.length > 0 ? task : null, notice }, 'ask', 'new', 'refresh');
  typeHere(rows);
}

/** Sends a decision; `done(output)` takes a success. A new key is shown even if the person left the form meanwhile. */
const send = (path, body, done) =>
  busily('go on', async () => {
    const { session, task } = page;
    task.failure = undefined;
    const { output, failure, problem } = await request(path, body);
    if (page.session !== session || (page.task !== task && !task.create)) return;
    if (output !== null) done(output);
    else if (page.task !== task || session.token === undefined) return;
    else if (task.asked && problem.code === 'request_not_found') leaveToLook(`${failure}.`);
    else set({ task: { ...task, failure } });
  });

/** Leaves a request that was approved, or may have been: a response may have been lost. Looks for the key. */
function leaveToLook(notice) {
  leave(notice);
  void lookForKey();
}

function createView(task) {
  const show = (made) => {
    const other = page.task === task ? null : page.task; // what was begun meanwhile stays
    const saved = () => {
      shown.close();
      set({ made: page.made.filter((key) => key !== shown) }, 'new key', 'new', 'go on');
    };
    const shown = newKey({ made, saved });
    set({ task: other, made: [shown, ...page.made] }, other === null && 'new key');
    void page.list.load();
  };
  return keyForm({
    head: html`<h2 id="form-title">New key</h2>`,
    fields: {},
    task,
    verb: 'Create key',
    doing: 'Creating…',
    other: html`<button at="cancel create" onclick=${() => set({ task: null }, 'new')}>Cancel</button>`,
    act: (wanted) => send('/tools/create_api_key', wanted, show),
  });
}

const heading = (words) => html`<h2 id="form-title" at="task" tabindex="-1">${words}</h2>`;

function connectView(task) {
  const asked = new URLSearchParams(task.connect);
  const { place: client, says, name } = receiverOf(asked);
  const { grantable } = page.session;
  const wished = (asked.get('scope') ?? '').split(' ').filter(Boolean);
  const mayGrant = (scope) =>
    SCOPE.test(scope) && (setup.scopes?.includes(scope) ?? true) && (grantable?.includes(scope) ?? true);
  const refused = wished.filter((scope) => !mayGrant(scope));
  const goBack = ({ location: back }) => {
    leave(`The key is handed over when ${client} fetches it. You can close this page.`);
    location.assign(back);
  };
  return keyForm({
    head: html`${heading(html`<small>A key will be made, and handed to</small> <span class="host">${client}</span>`)}
      ${says && html`<p>${says}</p>`}
      <p>
        The key is good for <bdi>${asked.get('resource') || setup.url}</bdi> alone. Go on only if you have just asked for
        this connection yourself.
      </p>
      ${refused.length > 0 && html`<p class="hint">It also asked for what you may not give: <bdi>${refused.join(' ')}</bdi></p>`}`,
    fields: {
      name,
      ticked: wished.filter((scope) => mayGrant(scope) && !GIVES.has(scope)),
      more: wished.filter(mayGrant),
      daysUsual: CONNECTION_DAYS,
    },
    task,
    verb: 'Make the key and hand it over',
    doing: 'Handing over…',
    other: html`<a href="${setup.url}/authorize?${task.connect}">Paste a key instead, or cancel</a>
      ${task.begun && html`<button at="leave" onclick=${() => leave()}>Not now</button>`}`,
    // A wanted field that is undefined also hides the link's parameter of its name.
    act: (wanted) => send('/authorize', { ...Object.fromEntries(asked), ...wanted }, goBack),
  });
}

function codeView({ ask, failure, begun }) {
  const isTyped = ask === '';
  const look = ({ target }) => {
    const userCode = isTyped ? new FormData(target).get('code') : ask;
    return send('/device/request', { userCode }, (asked) => set({ task: { ask: userCode, asked, begun } }, 'task'));
  };
  const typed = html`<div class="field">
    <label for="code">The code that the program shows</label>
    <input id="code" name="code" at="code" required maxlength="20" autocomplete="off" autocapitalize="characters"
      placeholder="XXXX-XXXX" />
  </div>`;
  const shown = html`<p>Does the program that you started show this code?</p>
    <p class="host">${ask}</p>
    <p class="hint">If somebody else sent you this link, say no: the key would be theirs.</p>`;
  return html`<form class="card stack narrow" id="decided" aria-labelledby="form-title" onsubmit=${look}>
    ${heading('A program asks for a key')}${complaint(failure)}${isTyped ? typed : shown}
    <div class="line">
      ${workButton({
        at: 'go on',
        label: isTyped ? 'Go on' : 'Yes, it shows this code',
        doing: 'Looking for it…',
        look: 'solid',
      })}
      <button at="leave" onclick=${() => leave()}>${isTyped ? 'Cancel' : 'No'}</button>
    </div>
  </form>`;
}

function programView(task) {
  const { ask: userCode, asked } = task;
  const { clientName, address, askedAt, resource, scopes } = asked;
  const decide = (decision, done) => send('/device/decision', { userCode, ...decision }, done);
  const made = () => leaveToLook('The program gets its key when it asks next, within seconds.');
  const refuse = () => decide({ approve: false }, () => leave('Refused: the program gets no key.'));
  return keyForm({
    head: html`${heading('A program asks for a key')}
      <dl>
        ${clientName !== null && html`<dt>Calls itself</dt><dd>“${nameOf(clientName)}”, in its own words</dd>`}
        <dt>Asks from</dt><dd>${address}, ${timeOf(askedAt)}</dd>
        <dt>For</dt><dd><bdi>${resource}</bdi></dd>
        ${scopes.length > 0 && html`<dt>Would like</dt><dd>${scopeList(scopes, SCOPES_SHOWN)}</dd>`}
      </dl>
      <p>Whoever started it gets the key. Go on only if that was you, just now.</p>`,
    fields: { name: clientName ?? '', more: scopes, daysUsual: PROGRAM_DAYS },
    task,
    verb: 'Make the key',
    doing: 'Deciding…',
    other: html`<button at="refuse" onclick=${refuse}>Refuse</button>`,
    act: (wanted) => decide({ approve: true, ...wanted }, made),
  });
}

/** Reloads the list until it has a new key, for as long as a polling program may take. */
async function lookForKey() {
  const { list } = page;
  const before = list.ids();
  for (let looks = 0; looks < LOOKS_MAX && page.list === list && page.session.token !== undefined; looks++) {
    await list.load();
    if (list.ids().some((id) => !before.includes(id))) return set({ notice: 'The list has a new key.' });
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
