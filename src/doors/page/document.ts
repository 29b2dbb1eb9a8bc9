// GET /keys: serves the page where people manage their keys. It contains nobody's data: it calls the tools with its
// user's token.

import { admittedIds } from '../../config/client-ids.ts';
import type { Config } from '../../config/config.ts';
import type { Env } from '../../config/env.ts';
import { mintingCommand } from '../../config/settings-report.ts';
import { once } from '../../ground/cache.ts';
import { pagePolicy } from '../../ground/html.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { ServerAddress } from '../../ground/server-address.ts';
import type { JsonObject } from '../../ground/text.ts';
import { keysPageUrl } from '../../ground/urls.ts';
import { documentOf, withSetup } from '../../pages/document.ts';
import type { Fragment } from '../../pages/inline.ts';
import { refusedWithin } from '../../pages/widgets/index.ts';
import { createIssuerCache, discover, namedUrl } from '../../users/discovery.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createOutageLog } from '../../watch/outage.ts';
import { PAGE_HEADERS } from '../../web/headers.ts';
import type { Handler } from '../../web/router.ts';
import decisions from './decisions.js' with { type: 'text' };
import drafts from './drafts.js' with { type: 'text' };
import externalSignIn from './external-sign-in.js' with { type: 'text' };
import keyChildren from './key-children.js' with { type: 'text' };
import keyForm from './key-form.js' with { type: 'text' };
import keyPanel from './key-panel.js' with { type: 'text' };
import ownEdits from './own-edits.js' with { type: 'text' };
import page from './page.js' with { type: 'text' };
import session from './session.js' with { type: 'text' };
import signIn from './sign-in.js' with { type: 'text' };
import tokenSignIn from './token-sign-in.js' with { type: 'text' };

const PARTS = {
  'decisions.js': decisions,
  'drafts.js': drafts,
  'external-sign-in.js': externalSignIn,
  'key-children.js': keyChildren,
  'key-form.js': keyForm,
  'key-panel.js': keyPanel,
  'own-edits.js': ownEdits,
  'page.js': page,
  'session.js': session,
  'sign-in.js': signIn,
  'token-sign-in.js': tokenSignIn,
};

export interface KeysPageOptions {
  readonly config: Config;
  readonly address: ServerAddress;
  readonly env: Env;
  /** How messages run a script of package.json; null: not possible. */
  readonly runScript: string | null;
  /** The scopes that tools and prompts demand of keys. */
  readonly keyScopes: readonly string[];
  /** Loads what only admins see; null: there are none. */
  readonly part: (() => Promise<Fragment>) | null;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates the handler of the part for admins. It is code, and holds nobody's data. */
export function partRoute(part: () => Promise<Fragment>): Handler {
  const load = once(async () => new Blob([(await part()).script]));
  const headers = { ...PAGE_HEADERS, 'Content-Type': 'text/javascript; charset=utf-8' };
  return async () => new Response(await load(), { headers });
}

export function keysPageRoute(options: KeysPageOptions): Handler {
  const { config, address, env, runScript, part: loadPart, clock, log } = options;
  const signIn = config.keysPage?.signIn ?? null; // without it people sign in with a link, or paste a token
  const resource = config.jwtAudience ?? address.url; // a token's audience doesn't depend on the name in the request
  const findIssuer = signIn && issuerFinder(signIn, resource, clock, log);
  // For anyone to read: with the names of settings alone.
  const mints = mintingCommand(config, { env, publicUrl: address.url, runScript }, () => '…');
  const load = once(async () => {
    const { names = [] } = (await loadPart?.()) ?? {};
    const parts = { ...PARTS, 'shared.js': `export const shared = { ${names.join(', ')} };\n` };
    const document = documentOf({ title: 'API keys', script: 'page.js', isPage: true, parts });
    return { document, policy: pagePolicy([document]) };
  });
  let last = { html: '', page: new Blob() };
  return async ({ acceptsCredentials, publicUrl }) => {
    const { document, policy } = await load();
    const issuer = findIssuer && (await findIssuer());
    const part = loadPart && `${publicUrl}/keys/operators.js`;
    const html = withSetup(document, setupOf(options, mints, publicUrl, issuer, acceptsCredentials));
    if (html !== last.html) last = { html, page: new Blob([html]) }; // all responses share the Blob
    const headers = {
      ...PAGE_HEADERS,
      'Content-Security-Policy': `${withScript(policy, part)}; connect-src 'self'${tokenSource(issuer)}`,
    };
    return new Response(last.page, { headers });
  };
}

/** A host that a source can name (CSP3 §2.3.1): no IPv6 address. */
const HOST_SOURCE = /^[a-z\d.-]+$/;

/** Allows a script of this server, beside those by hash. */
function withScript(policy: string, url: string | null): string {
  if (url === null) return policy;
  const isNameable = HOST_SOURCE.test(new URL(url).hostname);
  return policy.replace('script-src ', () => `script-src ${isNameable ? asSource(url) : "'self'"} `);
}

/** Returns the setup of the page's script. It is public. */
function setupOf(
  { config, keyScopes }: KeysPageOptions,
  mints: string | null, // the start of the command that creates sign-in links; null: there is none
  publicUrl: string,
  issuer: Issuer,
  isSecure: boolean,
) {
  const { jwtClaims, keyCeilings, connect, device, production, revocationLagMaxMs } = config;
  const app = config.keysPage?.app ?? null;
  return {
    url: publicUrl, // the tools are below it
    page: new URL(keysPageUrl(publicUrl)).href,
    isSecure, // false: credentials aren't accepted the way the page was requested
    issuer,
    app: app && { url: app.href, host: app.host }, // where the app signs its people in
    links: mints !== null, // whether the operator can create sign-in links
    mints: production ? null : mints, // how; production keeps it to itself
    ownerClaim: jwtClaims.owner,
    scopeClaim: jwtClaims.scope, // names the scopes that a user may grant; null: any
    clients: connect?.clients ? admittedIds(connect.clients) : null, // ids whose documents are read; null: of none
    asks: device, // whether programs without a browser may ask for a key
    admin: jwtClaims.admin, // the claim of admins and its value; null: there are none
    scopes: keyCeilings.scopes, // the scopes there are; null: any
    offered: keyScopes,
    daysMax: keyCeilings.daysMax,
    refused: refusedWithin(revocationLagMaxMs),
  };
}

type Issuer = Awaited<ReturnType<ReturnType<typeof issuerFinder>>> | null;

/** How long a visitor waits for an issuer. */
const WAIT_MS_MAX = 2000;
/** The page may offer a sign-in at an issuer that is down for this long. */
const ENDPOINTS_TTL_MS = 60_000;
/** The negative cache: visitors don't wait again for an issuer that just didn't respond. */
const FAILURE_PAUSE_MS = 5000;

/** Creates what finds where people sign in, named by the issuer's host. Its `endpoints` are null while it is out of reach. */
function issuerFinder(signIn: { readonly issuer: string }, resource: string, clock: Clock, log: Log) {
  const { issuer } = signIn;
  const outage = createOutageLog(log, { on: 'issuer out of reach', off: 'issuer back', eachReason: true });
  const { current, refresh } = createIssuerCache(() => discover(issuer, endpointsIn, WAIT_MS_MAX, clock), {
    ttlMs: ENDPOINTS_TTL_MS,
    pauseMs: FAILURE_PAUSE_MS,
    clock,
    outage,
  });
  const name = new URL(issuer).host;
  return async () => ({ ...signIn, name, resource, endpoints: current() ?? (await refresh().catch(nothing)) });
}

function endpointsIn(metadata: JsonObject, issuer: string) {
  return {
    authorization: namedUrl(metadata.authorization_endpoint, 'authorization endpoint', issuer),
    token: namedUrl(metadata.token_endpoint, 'token endpoint', issuer),
    /** Whether every authorization response names the issuer (RFC 9207). */
    sendsIss: metadata.authorization_response_iss_parameter_supported === true,
  };
}

function nothing(error: unknown): null {
  issuerOutageIn(error);
  return null;
}

function tokenSource(issuer: Issuer): string {
  if (issuer?.endpoints == null) return '';
  const { origin, pathname } = issuer.endpoints.token;
  return ` ${asSource(origin + pathname)}`;
}

/** Encodes the characters of a URL that would end a directive. */
const asSource = (url: string): string => url.replaceAll(';', '%3B').replaceAll(',', '%2C');
