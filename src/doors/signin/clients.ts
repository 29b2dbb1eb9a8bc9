// Identifies clients. The id of a client that registers (POST /register, RFC 7591) contains its registration under a MAC,
// so the server stores nothing. A client whose id is a URL is identified by the document there (document-cache.ts), if
// that is listed; else nobody vouches for it, and it gets a key only where any client may register to get one.

import { createRefuse, refused } from '../../api/oauth.ts';
import { isUrl } from '../../config/client-ids.ts';
import { isAdmitted, type Redirects } from '../../config/redirects.ts';
import { networkOf } from '../../ground/ip.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { createSignedText, type Signing } from '../../ground/signed-text.ts';
import { isKeyName, isObject, isVisible } from '../../ground/text.ts';
import type { Log } from '../../watch/log.ts';
import { excerptOf } from '../../watch/redact.ts';
import type { Body } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { json } from '../../web/headers.ts';
import type { ClientDocuments } from './document-cache.ts';

export interface Client {
  /** Those of its registration or document; of a client that isn't listed, the one that the request has. */
  readonly redirectUris: readonly string[];
  /** What a registered client calls itself, which proves nothing; null if it has no name. */
  readonly name: string | null;
  /** The host of its id; null if it was registered. */
  readonly host: string | null;
  /** Whether its document, which somebody has listed, names its redirect URIs. */
  readonly isListed: boolean;
  /** Whether a key may now be sent to the request's redirect URI, if that is one of these. */
  readonly isAdmitted: boolean;
}

export type ClientFault =
  | { readonly is: 'unknown' }
  /** Its id is the URL of a document that isn't listed, and OAUTH_REDIRECTS doesn't admit its redirect URI. */
  | { readonly is: 'not_listed'; readonly host: string }
  /** Its document can't be fetched or used. */
  | { readonly is: 'without_document'; readonly host: string; readonly problem: Problem };

/** What an id contains. The page /keys reads the name there (doors/page/decisions.js). */
type SignedRegistration = readonly [name: string | null, ...redirectUris: string[]];

const UNKNOWN: Found = err({ is: 'unknown' });

type Found = Result<Client, ClientFault>;

export type Clients = ReturnType<typeof createClients>;

/** Creates what identifies clients. `documents` is null if none may be read. */
export function createClients(signing: Signing, documents: ClientDocuments | null, redirects: Redirects | null) {
  const signedText = createSignedText(signing, 'client_id');
  const admitsRedirect = (uri: string | null): uri is string =>
    redirects !== null && uri !== null && isAdmitted(redirects, uri);

  async function registered(clientId: string, redirectUri: string | null): Promise<Found> {
    const text = await signedText.read(clientId);
    if (text === null) return UNKNOWN;
    const [name, ...redirectUris]: SignedRegistration = JSON.parse(text);
    return ok({ redirectUris, name, host: null, isListed: false, isAdmitted: admitsRedirect(redirectUri) });
  }

  return {
    /** Returns the id of a client that registers. Equal registrations have equal ids. */
    idOf: (redirectUris: readonly string[], name: string | null): Promise<string> =>
      signedText.sign(JSON.stringify([name, ...redirectUris] satisfies SignedRegistration)),

    /** Finds the client of an id, for a key that goes to `redirectUri`. `clientAddress` returns the requester's address. */
    async find(clientId: string, redirectUri: string | null, clientAddress: () => string): Promise<Found> {
      if (!isUrl(clientId)) return registered(clientId, redirectUri);
      const { host } = new URL(clientId);
      const client = { name: null, host, isAdmitted: true };
      if (documents?.admits(clientId) === true) {
        const found = await documents.redirectUrisOf(clientId, redirectUri, networkOf(clientAddress()));
        if (!found.ok) return err({ is: 'without_document', host, problem: found.error });
        return ok({ ...client, redirectUris: found.value, isListed: true }); // its vendor is trusted
      }
      if (!admitsRedirect(redirectUri)) return err({ is: 'not_listed', host });
      return ok({ ...client, redirectUris: [redirectUri], isListed: false });
    },

    /** Resolves with whether the id can belong to a client of this server. Fetches nothing. */
    async mayBe(clientId: string): Promise<boolean> {
      if (!isUrl(clientId)) return (await registered(clientId, null)).ok;
      return redirects !== null || documents?.admits(clientId) === true;
    },
  };
}

/** The most KiB of a registration, with room for all other metadata that clients register. */
const REGISTRATION_KIB_MAX = 16;

/** A client's id contains them and is sent in URLs, which proxies limit to 4 to 8 KiB. */
const URIS_MAX = 10;
const URIS_CHARS_MAX = 2000;
const SHOWN_NAME_CHARS = 60;

export function registerRoute(clients: Clients, redirects: Redirects, log: Log) {
  const refuse = createRefuse('register', log);
  async function post(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok && body.error.code !== 'invalid_json') return refuse(context, body.error);
    if (context.bodyBytes > REGISTRATION_KIB_MAX * 1024) {
      return refuse(context, { code: 'payload_too_large', kibMax: REGISTRATION_KIB_MAX });
    }
    const registration = registrationOf(body.ok ? body.value : null, redirects);
    if (!registration.ok) return refuse(context, registration.error);
    const { redirect_uris: uris, client_name: name } = registration.value;
    return json(201, { client_id: await clients.idOf(uris, shownName(name)), ...registration.value });
  }
  return { post, refuse };
}

/** Returns the response to a registration (RFC 7591 §3.2.1), with the admitted redirect URIs, or a refusal. */
function registrationOf(metadata: unknown, redirects: Redirects) {
  if (!isObject(metadata)) return refused('invalid_client_metadata', 'is no JSON object');
  const { redirect_uris: uris, client_name: name } = metadata;
  const areTexts = Array.isArray(uris) && uris.every((uri) => typeof uri === 'string');
  if (!areTexts || uris.length > URIS_MAX || uris.join('').length > URIS_CHARS_MAX) {
    const reason = `redirect_uris is no list of at most ${URIS_MAX} texts of ${URIS_CHARS_MAX} characters together`;
    return refused('invalid_redirect_uri', reason);
  }
  const admitted = [...new Set(uris)].filter((uri) => isAdmitted(redirects, uri));
  if (admitted.length === 0) {
    const redirectUris = uris.map((uri) => excerptOf(uri));
    return refused('invalid_redirect_uri', 'OAUTH_REDIRECTS admits none of them', { redirectUris });
  }
  return ok({
    ...(typeof name === 'string' && isKeyName(name) && { client_name: name }),
    redirect_uris: admitted,
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code'],
    response_types: ['code'],
  });
}

/** Returns the part of a client's name that its id keeps, which pages show as the client's own words. */
function shownName(name = ''): string | null {
  const shown = [...name].slice(0, SHOWN_NAME_CHARS).join('');
  return isVisible(shown) ? shown : null;
}
