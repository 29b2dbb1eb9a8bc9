// Identifies clients. The id of a registered client contains its registration under a MAC, so the server stores
// nothing. A client whose id is a URL is identified by the document there (client-documents.ts), if that is listed; else
// nobody vouches for it, and it gets a key only where any client may register to get one.

import { isUrl } from '../../config/client-ids.ts';
import { isAdmitted, NO_REDIRECTS, type Redirects } from '../../config/redirects.ts';
import { networkOf } from '../../ground/ip.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { createSignedText, type SignedTextOptions } from '../../ground/signed-text.ts';
import type { ClientDocuments } from './client-documents.ts';

/** What is known of a client. Nobody else can choose its redirect URIs. */
export interface Client {
  readonly redirectUris: readonly string[];
  /** What a registered client calls itself, which proves nothing; null if it has no name. */
  readonly name: string | null;
  /** The host of its id; null if it was registered. */
  readonly host: string | null;
  /** Whether its document, which somebody has listed, names its redirect URIs. */
  readonly isListed: boolean;
  /** Returns whether a key may now be sent to one of its redirect URIs. */
  isAdmitted(redirectUri: string): boolean;
}

export type ClientFault =
  | { readonly is: 'unknown' }
  /** Its id is the URL of a document that isn't listed, and OAUTH_REDIRECTS doesn't admit its redirect URI. */
  | { readonly is: 'not_listed'; readonly host: string }
  /** Its document can't be fetched or used. */
  | { readonly is: 'without_document'; readonly host: string; readonly problem: Problem };

export interface Clients {
  /** Returns the id of a client that registers. Equal registrations have equal ids. */
  idOf(redirectUris: readonly string[], name: string | null): Promise<string>;
  /** Finds the client of an id, for a key that goes to `redirectUri`. `clientAddress` returns the requester's address. */
  find(clientId: string, redirectUri: string | null, clientAddress: () => string): Promise<Result<Client, ClientFault>>;
  /** Resolves with whether the id can belong to a client of this server. Fetches nothing. */
  mayBe(clientId: string): Promise<boolean>;
}

export interface ClientsOptions extends Omit<SignedTextOptions, 'use'> {
  /** Reads the clients' documents; null if none may be read. */
  readonly documents: ClientDocuments | null;
  readonly redirects: Redirects;
}

const UNKNOWN: Result<never, ClientFault> = err({ is: 'unknown' });

export function createClients({ documents, redirects, ...signing }: ClientsOptions): Clients {
  const signedText = createSignedText({ ...signing, use: 'client_id' });

  async function registered(clientId: string): Promise<Result<Client, ClientFault>> {
    const text = await signedText.read(clientId);
    if (text === null) return UNKNOWN;
    const parts = JSON.parse(text) as readonly string[]; // signed
    const named = parts.find(isName);
    return ok({
      redirectUris: parts.filter((part) => !isName(part)),
      name: named === undefined ? null : named.slice(1),
      host: null,
      isListed: false,
      isAdmitted: (uri) => isAdmitted(redirects, uri),
    });
  }

  async function documented(
    documents: ClientDocuments,
    clientId: string,
    redirectUri: string | null,
    network: string,
  ): Promise<Result<Client, ClientFault>> {
    const { host } = new URL(clientId);
    const found = await documents.redirectUrisOf(clientId, redirectUri, network);
    if (!found.ok) return err({ is: 'without_document', host, problem: found.error });
    // Its vendor is trusted.
    return ok({ redirectUris: found.value, name: null, host, isListed: true, isAdmitted: () => true });
  }

  function unlisted(clientId: string, redirectUri: string | null): Result<Client, ClientFault> {
    const { host } = new URL(clientId);
    if (redirectUri === null || !isAdmitted(redirects, redirectUri)) return err({ is: 'not_listed', host });
    return ok({ redirectUris: [redirectUri], name: null, host, isListed: false, isAdmitted: () => true });
  }

  return {
    idOf: (redirectUris, name) =>
      signedText.sign(JSON.stringify(name === null ? redirectUris : [...redirectUris, ` ${name}`])),

    async find(clientId, redirectUri, clientAddress) {
      if (!isUrl(clientId)) return registered(clientId);
      if (documents?.admits(clientId) !== true) return unlisted(clientId, redirectUri);
      return documented(documents, clientId, redirectUri, networkOf(clientAddress()));
    },

    async mayBe(clientId) {
      if (!isUrl(clientId)) return (await registered(clientId)).ok;
      return redirects !== NO_REDIRECTS || documents?.admits(clientId) === true;
    },
  };
}

/**
 * Returns whether a part is the name. It stands among the URIs, for servers of the previous version, and begins with a
 * space, unlike any URI.
 */
const isName = (part: string): boolean => part.startsWith(' ');
