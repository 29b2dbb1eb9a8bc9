// The page /keys: one document with its styles and scripts, and what it is told of the server.

import { pagePolicy } from '../../ground/html.ts';
import { inlineAssets } from '../../ground/inline.ts';
import { COMPONENTS } from '../widgets/components.ts';
import pageStyle from '../widgets/page.css' with { type: 'text' };
import errand from './errand.js' with { type: 'text' };
import keyForm from './key-form.js' with { type: 'text' };
import others from './others.js' with { type: 'text' };
import html from './page.html' with { type: 'text' };
import js from './page.js' with { type: 'text' };
import post from './post.js' with { type: 'text' };
import session from './session.js' with { type: 'text' };
import signIn from './sign-in.js' with { type: 'text' };
import signInCard from './sign-in-card.js' with { type: 'text' };

/** Sent to the page's script. Anybody may read it. */
export interface PageSetup {
  /** PUBLIC_URL: the tools are below it. */
  readonly url: string;
  /** The page's own URL. */
  readonly page: string;
  /** False if it was requested in a way in which no credential is accepted. */
  readonly isSecure: boolean;
  readonly issuer: PageIssuer | null;
  /** What begins the command that makes links that sign in; null: there is none. */
  readonly mints: string | null;
  /** The claim that names the owner of keys. */
  readonly ownerClaim: string;
  /** The claim of the scopes that a user may grant; null: any. */
  readonly scopeClaim: string | null;
  /** Whether programs without a browser may ask for a key. */
  readonly asks: boolean;
  /** The claim of admins and its value; null: there are none. */
  readonly admin: { readonly name: string; readonly value: string } | null;
  /** Those there are; null: any. */
  readonly scopes: readonly string[] | null;
  /** Those that tools ask for. */
  readonly offered: readonly string[];
  /** The longest life of a key; null: no limit. */
  readonly daysMax: number | null;
  /** How soon an ended key is refused, in words. */
  readonly refused: string;
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
export type MakeKeysPage = (setup: PageSetup) => { readonly html: Blob; readonly policy: string };

export function createKeysPage(): MakeKeysPage {
  const page = inlineAssets(html, {
    ...COMPONENTS,
    'errand.js': errand,
    'key-form.js': keyForm,
    'others.js': others,
    'page.css': pageStyle,
    'page.js': js,
    'post.js': post,
    'session.js': session,
    'sign-in.js': signIn,
    'sign-in-card.js': signInCard,
  });
  const policy = pagePolicy([page]);
  let last = { json: '', html: new Blob() };

  return (setup) => {
    const json = JSON.stringify(setup).replaceAll('<', '\\u003c');
    // All responses share the Blob.
    if (json !== last.json) last = { json, html: new Blob([page.replace('"{setup}"', () => json)]) };
    return { html: last.html, policy: `${policy}; connect-src 'self'${tokenSource(setup.issuer)}` };
  };
}

/** The token endpoint as a CSP source, without characters that would end the directive. */
function tokenSource(issuer: PageIssuer | null): string {
  if (issuer?.endpoints == null) return '';
  const { origin, pathname } = issuer.endpoints.token;
  return ` ${origin}${pathname.replaceAll(';', '%3B').replaceAll(',', '%2C')}`;
}
