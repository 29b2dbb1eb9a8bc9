// The ways in: with a link that whoever runs the server makes, with a pasted token, and at an issuer, as a public client:
// authorization code with PKCE (RFC 7636), its state, and the issuer's name in the response (RFC 9207). What must be
// remembered stands in sessionStorage only while the person is away.

import { html } from '../widgets/draw.js';
import { complaint, setup, workButton } from '../widgets/parts.js';
import { typedIn } from './key-form.js';
import { ASK, askToSignIn, page, signIn } from './session.js';

const AWAY = 'mcp-key-server/sign-in';
const RANDOM_BYTES = 32;
const { issuer, mints } = setup;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));

/** Goes to the issuer. */
async function leave() {
  try {
    const [verifier, state] = [random(), random()];
    const challenge = base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier)));
    const url = new URL(issuer.endpoints.authorization);
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
    for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
    const form = document.getElementById('create');
    const kept = { verifier, state, typed: form && typedIn(form), errand: page.errand };
    sessionStorage.setItem(AWAY, JSON.stringify(kept));
    location.assign(url);
  } catch {
    askToSignIn('This browser does not let the page sign in: it needs HTTPS, and sessionStorage.');
  }
}

/** What was kept while the person was away, or null. It is kept no longer. */
export function takeKept() {
  try {
    const kept = sessionStorage.getItem(AWAY);
    sessionStorage.removeItem(AWAY);
    return JSON.parse(kept);
  } catch {
    return null; // a browser may keep nothing for this site
  }
}

/** Signs in with the issuer's response in `query`. */
export async function comeBack(query, kept) {
  try {
    await signIn(await redeem(query, kept));
  } catch (error) {
    askToSignIn(error.message);
  }
}

/** The access token; throws an Error whose message is for the person. */
async function redeem(query, kept) {
  const { name, clientId, resource, endpoints } = issuer;
  if (kept === null || query.get('state') !== kept.state) {
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
  }).catch(() => {
    throw new Error(`${name} did not answer, or does not let this page ask it for a token.`);
  });
  const { access_token: token, error } = await response.json().catch(() => ({}));
  if (typeof token !== 'string') throw new Error(`${name} gave no token: ${error ?? response.status}.`);
  return token;
}

/** `waiting`: who waits meanwhile, in words, or ''. */
export function signInCard(why, waiting) {
  const isOnlyWay = issuer === null && mints === null;
  const use = ({ target }) => signIn(new FormData(target).get('token').trim());
  const send = { at: 'use token', label: 'Sign in', doing: 'Signing in…', look: isOnlyWay && 'solid' };
  return html`<section class="card stack narrow" aria-labelledby="sign-in-title">
    <h2 id="sign-in-title" at="sign-in" tabindex="-1">Sign in</h2>
    ${why !== '' && complaint(why)}
    ${waiting !== '' && html`<p role="status">${waiting}</p>`}
    <p class="hint">With an API key a program calls this server on your behalf. Here you make keys, and end them.</p>
    ${issuer !== null && html`<div>${byIssuer()}</div>`}
    ${
      mints !== null &&
      html`<div>
        <p>Whoever runs this server can send you a link that signs you in. It is made on the server:</p>
        <pre>${mints} --sub <span class="muted">your-name</span> --link</pre>
      </div>`
    }
    <form class=${isOnlyWay ? 'field' : 'field next'} onsubmit=${use}>
      <label for="token">${isOnlyWay ? 'Paste' : 'Or paste'} a user token</label>
      <div class="line">
        <input id="token" name="token" autocomplete="off" autocapitalize="off" spellcheck="false" required
          aria-describedby="token-hint" />
        ${workButton(send)}
      </div>
      <p id="token-hint" class="hint">It stays in this tab, and is gone when you close or reload it.</p>
    </form>
  </section>`;
}

const byIssuer = () =>
  issuer.endpoints === null
    ? complaint(html`<bdi>${issuer.name}</bdi>, where you sign in, can’t be reached. Reload the page to try again.`)
    : html`<button type="button" class="solid" at="leave" onclick=${leave}>Sign in with <bdi>${issuer.name}</bdi></button>`;
