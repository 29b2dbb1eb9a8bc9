// The page /keys as it is sent: one document with its styles, scripts and widgets, and what it is told of the server.

import dom from '../widgets/dom.js' with { type: 'text' };
import { contentPolicy, frame, framedWidget } from '../widgets/frame.ts';
import host from '../widgets/host.js' with { type: 'text' };
import { inlineAssets } from '../widgets/inline.ts';
import shared from '../widgets/shared.css' with { type: 'text' };
import css from './page.css' with { type: 'text' };
import html from './page.html' with { type: 'text' };
import js from './page.js' with { type: 'text' };
import signIn from './sign-in.js' with { type: 'text' };

/** What the page is told. Anybody may read it. */
export interface PageSetup {
  /** PUBLIC_URL: the tools are below it. */
  readonly url: string;
  /** The page's own address. */
  readonly page: string;
  /** False if it was asked for in a way in which no credential is accepted. */
  readonly isSecure: boolean;
  /** Whether the server's own command makes links that sign in. */
  readonly mints: boolean;
  readonly issuer: PageIssuer | null;
  /** The scopes there are; null: any. */
  readonly scopes: readonly string[] | null;
  /** The longest life of a key; null: no limit. */
  readonly daysMax: number | null;
  /** The claims of tokens that say whose keys are managed, and who is an admin. */
  readonly claims: {
    readonly owner: string;
    readonly admin: { readonly name: string; readonly value: string } | null;
  };
}

/** Where the page's visitors sign in. */
export interface PageIssuer {
  /** As people know it: its host. */
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly scope: string;
  readonly resource: string;
  /** Null: the issuer is out of reach. */
  readonly endpoints: { readonly authorization: string; readonly token: string; readonly sendsIss: boolean } | null;
}

export interface KeysPage {
  /** The document, and the policy it needs. */
  readonly make: (setup: PageSetup) => { readonly html: Blob; readonly policy: string };
}

export function createKeysPage(): KeysPage {
  const parts = {
    'shared.css': shared,
    'page.css': css,
    'dom.js': dom,
    'host.js': host,
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
  const framed = page.replace(/\{(created|listed)\}/g, (_, name) => frames[name] ?? '');
  let last = { json: '', html: new Blob() };

  return {
    make(setup) {
      const json = JSON.stringify(setup).replaceAll('<', '\\u003c');
      // All who read it share its bytes.
      if (json !== last.json) last = { json, html: new Blob([framed.replace('"{setup}"', () => json)]) };
      return { html: last.html, policy: `${policyOf}; connect-src 'self'${tokenSource(setup.issuer)}` };
    },
  };
}

/** The one address that the page may reach beside its own origin, as a policy has it: without what would end the directive. */
function tokenSource(issuer: PageIssuer | null): string {
  if (issuer?.endpoints == null) return '';
  const { origin, pathname } = new URL(issuer.endpoints.token);
  return ` ${origin}${pathname.replaceAll(';', '%3B').replaceAll(',', '%2C')}`;
}
