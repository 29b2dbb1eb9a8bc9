// Signing in at an issuer, as a public client: authorization code with PKCE (RFC 7636), its state, and the issuer's name
// in the response (RFC 9207). What must be remembered stands in sessionStorage only while the person is away.

const AWAY = 'mcp-key-server/sign-in';
const RANDOM_BYTES = 32;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));

/** Goes to the issuer. `kept` is kept meanwhile. */
export async function leaveFor(issuer, redirectUri, kept) {
  const [verifier, state] = [random(), random()];
  const challenge = base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier)));
  const url = new URL(issuer.endpoints.authorization);
  const asked = {
    response_type: 'code',
    client_id: issuer.clientId,
    redirect_uri: redirectUri,
    scope: issuer.scope,
    resource: issuer.resource,
    state,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  sessionStorage.setItem(AWAY, JSON.stringify({ verifier, state, ...kept }));
  location.assign(url);
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

/** The access token for the response in `query`; throws an Error whose message is for the person. */
export async function redeem(issuer, redirectUri, query, kept) {
  if (kept === null || query.get('state') !== kept.state) {
    throw new Error('This response does not belong to a sign-in that was begun in this tab. Sign in again.');
  }
  const named = query.get('iss');
  if (named === null ? issuer.endpoints.sendsIss : named !== issuer.issuer) {
    throw new Error('The response did not come from the issuer of this server. Nothing was done with it.');
  }
  if (!query.has('code')) {
    const reason = query.get('error_description') ?? query.get('error');
    throw new Error(`${issuer.name} did not sign you in: ${reason}.`);
  }
  const response = await fetch(issuer.endpoints.token, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: query.get('code'),
      redirect_uri: redirectUri,
      client_id: issuer.clientId,
      code_verifier: kept.verifier,
      resource: issuer.resource,
    }),
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error',
  }).catch(() => {
    throw new Error(`${issuer.name} did not answer, or does not let this page ask it for a token.`);
  });
  const { access_token: token, error } = await response.json().catch(() => ({}));
  if (typeof token !== 'string') throw new Error(`${issuer.name} gave no token: ${error ?? response.status}.`);
  return token;
}

/** What a JWT says, for display alone: the server verifies it. */
export function claimsOf(token) {
  try {
    const payload = atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(payload, (char) => char.charCodeAt(0))));
  } catch {
    return {};
  }
}

/** Whether a token with these claims is not over yet. */
export const isInTime = ({ exp }) => typeof exp === 'number' && exp * 1000 > Date.now();

/** Whether the claims have that of ADMIN_CLAIM. */
export const hasClaim = (claims, wanted) => listIn(claims[wanted?.name]).includes(wanted?.value);

/** A claim that is text with spaces between, or a list. */
export const listIn = (claim) => (typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : []);

/** Takes what came with the address off it, and off the session's history, at once. */
export function takeFromAddress() {
  const { hash, search, pathname } = location;
  if (hash !== '' || search !== '') history.replaceState(null, '', pathname);
  const [fragment, query] = [hash.slice(1), search].map((text) => new URLSearchParams(text));
  const [token, connect, ask] = ['token', 'connect', 'ask'].map((name) => fragment.get(name));
  return { token, query, errand: connect !== null ? { connect } : ask !== null ? { ask } : null };
}
