// Reads the credentials of a request from their places; judges none.

import { isObject } from '../ground/text.ts';

/** As sent. A missing or empty one is null. */
export interface Credentials {
  readonly xApiKey: string | null;
  /** What follows `Bearer ` in Authorization; another scheme counts as absent. */
  readonly bearer: string | null;
  /** `_meta.api_key` of the body. */
  readonly metaApiKey: string | null;
  /** Authorization has what looks like a credential, without `Bearer` before it. */
  readonly lacksScheme?: true;
}

// RFC 9110 §11.1: the scheme's name is case-insensitive. What follows the one space is the credential, spaces included.
const BEARER = /^Bearer (?=.)/i;
const BEARER_LENGTH = 'Bearer '.length;
/** A key or a token alone (token68, RFC 9110 §11.2); longer than the name of any scheme. */
const CREDENTIAL_ALONE = /^[\w.~+/-]{24,}=*$/;

/** Of the headers alone. */
export function readCredentials(headers: Headers): Credentials {
  const authorization = headers.get('authorization');
  const xApiKey = headers.get('x-api-key') || null;
  const metaApiKey = null;
  if (authorization === null) return { xApiKey, bearer: null, metaApiKey };
  if (BEARER.test(authorization)) return { xApiKey, bearer: authorization.slice(BEARER_LENGTH), metaApiKey };
  return { xApiKey, bearer: null, metaApiKey, ...(CREDENTIAL_ALONE.test(authorization) && { lacksScheme: true }) };
}

/** With the key in the body, if there is one. */
export const withMetaApiKey = (credentials: Credentials, metaApiKey: string | null): Credentials =>
  metaApiKey === null ? credentials : { ...credentials, metaApiKey };

export interface ClientCredentials {
  readonly id: string;
  readonly secret: string;
}

const BASIC = /^Basic +(?=.)/i;

/** From `Authorization: Basic`, each part form-encoded (RFC 6749 §2.3.1). Null if absent; empty if not decodable. */
export function readBasic(headers: Headers): ClientCredentials | null {
  const authorization = headers.get('authorization') ?? '';
  if (!BASIC.test(authorization)) return null;
  try {
    const [, id = '', secret = ''] = /^([^:]*):(.*)$/s.exec(atob(authorization.replace(BASIC, ''))) ?? [];
    return { id: formDecoded(id), secret: formDecoded(secret) };
  } catch {
    return { id: '', secret: '' };
  }
}

const formDecoded = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));

export function metaApiKey(meta: unknown): string | null {
  const key = isObject(meta) ? meta.api_key : null;
  return typeof key === 'string' && key !== '' ? key : null;
}

export const carriesCredential = (credentials: Credentials): boolean =>
  credentials.xApiKey !== null || credentials.bearer !== null || credentials.metaApiKey !== null;
