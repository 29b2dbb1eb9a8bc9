// POST /register (RFC 7591): gives a client an id for its redirect URIs. Stores nothing.

import { createRefuse, json, type Refusal, refused } from '../../api/oauth.ts';
import { isAdmitted, type Redirects } from '../../config/redirects.ts';
import { ok, type Result } from '../../ground/result.ts';
import { hasLength, isObject, isStorable, isVisible } from '../../ground/text.ts';
import type { Log } from '../../watch/log.ts';
import { excerptOf } from '../../watch/redact.ts';
import type { Body } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import type { Clients } from './clients.ts';

/** The most KiB of a registration, with room for all other metadata that clients register. */
const REGISTRATION_KIB_MAX = 16;

/** A client's id contains them and is sent in URLs, which proxies limit to 4 to 8 KiB. */
const URIS_MAX = 10;
const URIS_CHARS_MAX = 2000;
const NAME_CHARS_MAX = 200;
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

interface Registration {
  readonly client_name?: string;
  readonly redirect_uris: readonly string[];
}

/**
 * Returns the response to a registration (RFC 7591 §3.2.1), with the admitted redirect URIs; an error if there are
 * none.
 */
function registrationOf(metadata: unknown, redirects: Redirects): Result<Registration, Refusal> {
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
    ...(isName(name) && { client_name: name }),
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

/** Returns whether a page can show the name. */
const isName = (name: unknown): name is string =>
  typeof name === 'string' && hasLength(name, 0, NAME_CHARS_MAX) && isStorable(name) && isVisible(name);
