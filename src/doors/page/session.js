// The state of the page: who is signed in, that person's keys, and what the person decides. Also sends requests with the
// token, which only this state holds.

import { change, focusOn, html } from '../../pages/widgets/draw.js';
import { keysList } from '../../pages/widgets/keys-list.js';
import { failed, relativeWords, setup, succeeded } from '../../pages/widgets/parts.js';
import { keyPanels } from './key-panel.js';
import { OWN_EDITS } from './own-edits.js';

const CALL_MS = 75_000; // a tool has 60 s
export const READ_MS = 20_000; // who waits longer presses the button again
const READS = /list_|events$/; // paths; others change something

/** The state from which the page is drawn. */
export const page = {
  session: null, // who is signed in; the token is undefined after it was refused
  why: null, // why a sign-in is needed; '': nobody has signed in; null: none is
  list: null, // the list of the person's keys
  part: null, // the operators' part, once it is loaded (token-sign-in.js)
  made: [], // new keys, while they are shown, the newest first
  task: null, // what the person decides (decisions.js), and what was typed for it before (drafts.js)
  left: null, // who left to sign in again, with what was typed in open rows, and the place in the operators' part
  offer: null, // the person a link would sign in, during the question (token-sign-in.js)
  leaving: null, // the question before leaving a new key to sign in (external-sign-in.js)
  notice: '',
};

/** Returns whether the task is the person's own, not of a client or program. */
export const isOwn = (task) => task === null || task.create === true;

/** Changes the state, redraws, and focuses the first of `places` that exists. */
export function set(changed, ...places) {
  change(page, changed);
  places.some(focusOn);
}

/** Returns whether the page shows a new secret, which is nowhere else. */
export const isKeyShown = () => page.made.length > 0 || page.list?.holdsSecrets() === true;

export function askToSignIn(sentence) {
  set({ why: sentence }, sentence === '' ? '' : 'sign-in');
}

function endSession(detail) {
  page.session.token = undefined;
  askToSignIn(`${detail}. Sign in again: what you have typed is kept.`);
}

/** Forgets everything of the previous person. */
export function forget() {
  page.list?.close();
  for (const shown of page.made) shown.close();
  page.part?.close();
  const task = isOwn(page.task) ? null : { connect: page.task.connect, ask: page.task.ask };
  newest.clear();
  // A form that the next person sees is another one.
  set({ session: null, list: null, part: null, made: [], offer: null, leaving: null, task, notice: '' });
}

/** Requests without cookies, cache and redirects. */
export const ASK = { method: 'POST', credentials: 'omit', cache: 'no-store', redirect: 'error' };

/** Returns whether a request changes nothing. An owner alone has its plan read. */
const isRead = (path, body) => READS.test(path) || (path.endsWith('update_owner') && Object.keys(body).length === 1);

/** Sends a request. Resolves with its outcome (pages/widgets/parts.js), and the status of the response if one came. */
export async function post(path, token, body) {
  const reads = isRead(path, body);
  const changesList = !reads && /^\/(tools|keys)/.test(path);
  const next = changesList ? 'It may have worked all the same: refresh the list to see.' : 'Try again.';
  const unanswered = failed(`No answer came. ${next}`);
  try {
    const response = await fetch(setup.url + path, {
      ...ASK,
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(reads ? READ_MS : CALL_MS),
    });
    const { status, ok, headers } = response;
    const told = await response.json();
    if (ok) return { status, ...succeeded(told) };
    const { detail, issues = [] } = told;
    if (typeof detail !== 'string') return unanswered; // the response of a proxy in between
    const more = issues
      .filter(({ message }) => !detail.includes(message))
      .map(({ path, message }) => `${path}: ${message}`);
    const sentence = withWait(detail, headers.get('Retry-After'));
    return { status, ...failed([sentence, ...more].join('. '), told) };
  } catch {
    return unanswered;
  }
}

/** Says in the server's sentence when to try again, if it told that as a number of seconds. */
function withWait(sentence, waitS) {
  if (!(waitS > 0)) return sentence;
  const wait = waitS < 60 ? `in ${waitS} s` : relativeWords(waitS * 1000);
  return `${sentence.replace(/; try again( later)?$/, '')}; try again ${wait}`;
}

/** The outcome without a valid token, or of a session before. No words: the sign-in card says why, or nobody reads it. */
const SIGNED_OUT = { status: 401, ...failed('') };

const newest = new Map(); // the last read since something changed, by what it asked for

/**
 * Sends `body` with the person's token. Resolves with the outcome. However late answers come, no older one is shown after
 * a newer one: a read resolves with the outcome of the last equal one, and is sent again if something changed meanwhile.
 */
export function request(path, body) {
  const sent = send(path, body);
  if (!isRead(path, body)) return sent.finally(() => newest.clear());
  const asked = path + JSON.stringify(body);
  const reading = sent.then((outcome) => {
    const last = newest.get(asked);
    if (last === reading || (last === undefined && outcome.output === null)) return outcome;
    return last ?? request(path, body);
  });
  newest.set(asked, reading);
  return reading;
}

async function send(path, body) {
  const { session } = page;
  const { token } = session;
  if (token === undefined) {
    endSession('You are not signed in any more');
    return SIGNED_OUT;
  }
  const result = await post(path, token, body);
  if (page.session !== session) return SIGNED_OUT;
  if (result.status !== 401) return result;
  if (session.token === token) endSession(result.failure);
  return session.token === undefined ? SIGNED_OUT : result;
}

export const callTool = (tool, args) => request(`/tools/${tool}`, args);

/** Resolves with the SHA-256 of a text in hex; null without Web Crypto, which browsers lack over plain HTTP. */
export async function hashOf(text) {
  if (crypto.subtle === undefined) return null;
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns the JSON that a part of a token or of a client's id holds in base64url; undefined if it is none. */
export function jsonIn(part) {
  try {
    const bytes = Uint8Array.from(atob(part.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // anybody may have written it
  }
}

const ownPanels = (list) =>
  keyPanels({
    ...list,
    events: (keyId, cursor) => request('/keys/events', { keyId, cursor }),
    save: (keyId, fields) => request('/keys/update', { keyId, ...fields }),
    family: {
      read: (id, cursor) => callTool('list_api_keys', { childrenOf: id, cursor }),
      end: (id) => callTool('revoke_api_key', { keyId: id }),
    },
    edits: OWN_EDITS,
  });

/** Shows the person's keys. `result` is what list_api_keys returned, if it was called. */
export function show(result) {
  page.list?.close();
  const list = keysList({
    callTool,
    own: ownPanels,
    hashOf,
    source: { tool: 'list_api_keys', args: {} },
    title: 'Your keys',
    hints: html`<p class="hint">A key lets a program call this server on your behalf.</p>`,
  });
  Object.assign(page, { list, notice: '' });
  if (result) list.take(result);
  else void list.load();
}
