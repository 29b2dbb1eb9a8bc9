// Leaves the page to sign in, and handles the response: of an issuer, as a public client (authorization code with PKCE,
// RFC 7636, its state, and the issuer's name in the response, RFC 9207), or of an app, which sends people back with a
// token. sessionStorage keeps the state only while the person is away.

import { html } from '../../pages/widgets/draw.js';
import { complaint, setup } from '../../pages/widgets/parts.js';
import { question } from '../../pages/widgets/question.js';
import { typedHere } from './drafts.js';
import { ASK, askToSignIn, isKeyShown, page, READ_MS, set } from './session.js';

const AWAY = 'mcp-key-server/sign-in';
const ISSUER_BYTES = 32; // recommended by RFC 7636 §4.1
const APP_BYTES = 16;
const WORDS_MAX = 200;
const { issuer, app } = setup;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const random = (bytes) => base64url(crypto.getRandomValues(new Uint8Array(bytes)));

/** What is stored while the person is away, until somebody signs in; null: nothing is. */
let away = null;

const store = () => sessionStorage.setItem(AWAY, JSON.stringify({ ...away, task: typedHere().task }));

/** Goes to `url` with `query` added, and stores what the person has begun here. */
function goTo(url, query, secrets) {
  const to = new URL(url);
  for (const [name, value] of Object.entries(query)) to.searchParams.set(name, value);
  const { session, part, left } = page;
  const { rows } = typedHere();
  const leaves = session && { sub: session.sub, owner: session.owner, rows, place: part?.place() };
  away = { ...secrets, left: leaves ?? left };
  store();
  location.assign(to);
}

async function goToIssuer() {
  const [verifier, state] = [random(ISSUER_BYTES), random(ISSUER_BYTES)];
  const challenge = base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier)));
  const asked = {
    response_type: 'code',
    client_id: issuer.clientId,
    redirect_uri: setup.page,
    scope: issuer.scope,
    resource: issuer.resource,
    state,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  };
  goTo(issuer.endpoints.authorization, asked, { verifier, state });
}

function goToApp() {
  const state = random(APP_BYTES);
  goTo(app.url, { return: setup.page, state }, { state });
}

const CANNOT = 'This browser does not let the page sign in: it needs HTTPS, and sessionStorage.';

/** Leaves the page. Asks first while it shows a new key, which is nowhere else. */
function leave(go) {
  const act = () => Promise.try(go).catch(() => askToSignIn(CANNOT));
  if (!isKeyShown()) return act();
  const leaving = question({
    at: 'of leaving',
    label: 'Leave the new key?',
    words: 'The new key is shown in this page alone: save it first, or it is lost when you go to sign in.',
    verb: 'Go all the same',
    doing: 'Going…',
    ends: true,
    act,
    close: () => set({ leaving: null }, 'leave'),
  });
  set({ leaving }, 'cancel of leaving');
}

const button = (words, go) => html`<button class="solid" at="leave" onclick=${() => leave(go)}>${words}</button>`;

/** Whether people sign in at an issuer that can't be reached now. */
const isIssuerAway = issuer !== null && issuer.endpoints === null;

/** Draws the button that leaves the page to sign in, or why it can't; null where there is none, or while it asks. */
export function leaveButton() {
  if (page.leaving !== null) return null;
  if (app !== null) return button(html`Sign in at <bdi>${app.host}</bdi>`, goToApp);
  if (issuer === null) return null;
  return isIssuerAway
    ? complaint(html`<bdi>${issuer.name}</bdi>, where you sign in, can’t be reached. Reload the page to try again.`)
    : button(html`Sign in with <bdi>${issuer.name}</bdi>`, goToIssuer);
}

/**
 * Returns what was stored before the person left; null if nothing was. Removes it, unless the issuer is out of reach: then
 * the person reloads the page, which needs it again.
 */
export function takeKept() {
  try {
    const stored = sessionStorage.getItem(AWAY);
    if (!isIssuerAway) dropKept();
    away = JSON.parse(stored);
  } catch {
    // a browser may block storage
  }
  return away;
}

/**
 * Stores it again, as it is when the page goes: another link may have come since the button was pressed. Also for who has
 * come back by the browser's button and goes on forwards, to what was left.
 */
export function keepAgain() {
  try {
    if (away !== null) store();
  } catch {
    // then it has stored nothing
  }
}

/** Removes what was stored: the person has signed in. */
export function dropKept() {
  away = null;
  try {
    sessionStorage.removeItem(AWAY);
  } catch {
    // then it has stored nothing
  }
}

/** Returns whether the app's response belongs to a sign-in that was begun in this tab. */
export const isFromApp = (state, kept) => app !== null && state !== null && state === kept?.state;

/** Returns the app's words on why it signed nobody in. */
export const wordsOfApp = (words) =>
  html`<bdi>${app.host}</bdi> did not sign you in: <bdi>${words.slice(0, WORDS_MAX)}</bdi>`;

/** Redeems the issuer's response in `query` for an access token. Throws an Error whose message is for the person. */
export async function redeem(query, kept) {
  const { name, clientId, resource, endpoints } = issuer;
  if (query.get('state') !== kept?.state) {
    throw new Error('This response does not belong to a sign-in that was begun in this tab. Sign in again.');
  }
  const sender = query.get('iss');
  if (sender === null ? endpoints.sendsIss : sender !== issuer.issuer) {
    throw new Error('The response did not come from the issuer of this server. Nothing was done with it.');
  }
  if (!query.has('code')) {
    throw new Error(`${name} did not sign you in: ${query.get('error_description') ?? query.get('error')}.`);
  }
  const response = await fetch(endpoints.token, {
    ...ASK,
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: query.get('code'),
      redirect_uri: setup.page,
      client_id: clientId,
      code_verifier: kept.verifier,
      resource,
    }),
    signal: AbortSignal.timeout(READ_MS),
  }).catch(() => {
    throw new Error(`${name} did not answer, or does not let this page ask it for a token.`);
  });
  const { access_token: token, error } = await response.json().catch(() => ({}));
  if (typeof token !== 'string') throw new Error(`${name} gave no token: ${error ?? response.status}.`);
  return token;
}
