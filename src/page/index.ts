// The page /keys: one document with its styles, scripts and widgets, and what it is told of the server.

import { escaped } from '../lib/html.ts';
import { inlineAssets } from '../lib/inline.ts';
import dom from '../widgets/dom.js' with { type: 'text' };
import { contentPolicy, frame, framedWidget } from '../widgets/frame.ts';
import host from '../widgets/host.js' with { type: 'text' };
import shared from '../widgets/shared.css' with { type: 'text' };
import form from './form.js' with { type: 'text' };
import framed from './frame.js' with { type: 'text' };
import list from './list.js' with { type: 'text' };
import css from './page.css' with { type: 'text' };
import html from './page.html' with { type: 'text' };
import js from './page.js' with { type: 'text' };
import postTool from './post-tool.js' with { type: 'text' };
import signIn from './sign-in.js' with { type: 'text' };

/** Sent to the page's script. Anybody may read it. */
export interface PageSetup {
  /** PUBLIC_URL: the tools are below it. */
  readonly url: string;
  /** The page's own URL. */
  readonly page: string;
  /** False if it was requested in a way in which no credential is accepted. */
  readonly isSecure: boolean;
  readonly issuer: PageIssuer | null;
  /** The claim that names the owner of keys. */
  readonly ownerClaim: string;
  /** The claim of admins and its value; null: there are none. */
  readonly admin: { readonly name: string; readonly value: string } | null;
}

/** Written into the markup. */
export interface PageFacts {
  /** Whether the command `token` makes links that sign in. */
  readonly mints: boolean;
  /** Those there are; null: any. */
  readonly scopes: readonly string[] | null;
  /** The longest life of a key; null: no limit. */
  readonly daysMax: number | null;
}

export interface PageIssuer {
  /** Its host, by which people know it. */
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly scope: string;
  readonly resource: string;
  /** Null: the issuer is out of reach. */
  readonly endpoints: SignInEndpoints | null;
}

export interface SignInEndpoints {
  readonly authorization: URL;
  readonly token: URL;
  readonly sendsIss: boolean;
}

/** Makes the document, and the Content-Security-Policy for it. */
export type MakeKeysPage = (setup: PageSetup, facts: PageFacts) => { readonly html: Blob; readonly policy: string };

export function createKeysPage(): MakeKeysPage {
  const parts = {
    'shared.css': shared,
    'page.css': css,
    'dom.js': dom,
    'host.js': host,
    'form.js': form,
    'frame.js': framed,
    'list.js': list,
    'post-tool.js': postTool,
    'sign-in.js': signIn,
    'page.js': js,
  };
  const page = inlineAssets(html, parts);
  const [created, listed] = [framedWidget('api-key-created'), framedWidget('api-keys-list')];
  const policyOf = contentPolicy([page, created, listed]);
  const frames: Readonly<Record<string, string>> = {
    created: frame('created', 'New API key', created),
    listed: frame('listed', 'API keys', listed),
  };
  let last = { json: '', html: new Blob() };

  return (setup, facts) => {
    const json = JSON.stringify(setup).replaceAll('<', '\\u003c');
    // All responses share the Blob.
    if (json !== last.json)
      last = { json, html: new Blob([fill(page, { ...frames, setup: json, ...written(setup, facts) })]) };
    return { html: last.html, policy: `${policyOf}; connect-src 'self'${tokenSource(setup.issuer)}` };
  };
}

/** Replaces the marks that have a text. */
const fill = (page: string, texts: Readonly<Record<string, string>>) =>
  page.replace(/"\{(setup)\}"|\{(\w+)\}/g, (mark, quoted, name) => texts[quoted ?? name] ?? mark);

const written = ({ url, issuer }: PageSetup, { mints, scopes, daysMax }: PageFacts) => ({
  host: escaped(new URL(url).host),
  ways: (issuer === null ? '' : byIssuer(issuer)) + (mints ? BY_LINK : ''),
  paste: issuer === null && !mints ? 'Paste' : 'Or paste',
  scopes: scopes === null ? TYPED_SCOPES : chosenScopes(scopes),
  days: expiries(daysMax),
});

const byIssuer = ({ name, endpoints }: PageIssuer) =>
  endpoints === null
    ? `<div class="way"><p class="sentence bad"><svg aria-hidden="true"><use href="#i-warn"/></svg>
<span><bdi>${escaped(name)}</bdi>, where you sign in, can’t be reached. Reload the page to try again.</span></p></div>`
    : `<div class="way"><button id="leave" type="button" class="solid">Sign in with <bdi>${escaped(name)}</bdi></button></div>`;

const BY_LINK = `<div class="way">
<p>Whoever runs this server can send you a link that signs you in. It is made on the server:</p>
<pre>bun run token --sub <i>your-name</i> --link</pre>
</div>`;

const TYPED_SCOPES = `<div>
<label for="scopes">Scopes</label>
<input id="scopes" name="scopes" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="scopes-hint">
<p id="scopes-hint" class="hint">What it may do, with spaces between, like “read write”. Give as few as possible.</p>
</div>`;

const chosenScopes = (scopes: readonly string[]) => `<fieldset>
<legend>Scopes</legend>
<div class="choices">${scopes
  .map((scope) => escaped(scope))
  .map((scope) => `<label><input type="checkbox" name="scopes" value="${scope}"><bdi>${scope}</bdi></label>`)
  .join('')}</div>
<p class="hint">What it may do. Give as few as possible.</p>
</fieldset>`;

const DAYS = [7, 30, 90, 365];
const DAYS_USUAL = 90;

function expiries(daysMax: number | null): string {
  const offered = daysMax === null ? DAYS : [...DAYS.filter((days) => days < daysMax), daysMax];
  const words = (days: number) => (days === 365 ? 'in a year' : days === 1 ? 'in a day' : `in ${days} days`);
  const option = (days: number) =>
    `<option value="${days}"${days === Math.min(DAYS_USUAL, daysMax ?? DAYS_USUAL) ? ' selected' : ''}>${words(days)}</option>`;
  return offered.map(option).join('') + (daysMax === null ? '<option value="">never</option>' : '');
}

/** The token endpoint as a CSP source, without characters that would end the directive. */
function tokenSource(issuer: PageIssuer | null): string {
  if (issuer?.endpoints == null) return '';
  const { origin, pathname } = issuer.endpoints.token;
  return ` ${origin}${pathname.replaceAll(';', '%3B').replaceAll(',', '%2C')}`;
}
