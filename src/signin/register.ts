// POST /register (RFC 7591): gives a client an id for its redirect URIs. Stores nothing.

import { err, ok } from '../ground/result.ts';
import { isObject, isStorable, isVisible } from '../ground/text.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import type { Clients } from './clients.ts';
import { isAdmitted, type Redirects } from './redirects.ts';
import { failed, json, oauthError, refuse } from './responses.ts';

/** The most bytes of a registration, with room for all other metadata that clients register. */
const REGISTRATION_BYTES_MAX = 16 * 1024;

/** A client's id contains them and is sent in URLs, which proxies limit to 4 to 8 KiB. */
const URIS_MAX = 10;
const URIS_CHARS_MAX = 2000;
const NAME_CHARS_MAX = 200;
const SHOWN_NAME_CHARS = 60;

export function registerRoute(clients: Clients, redirects: Redirects) {
  async function post(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) {
      return body.error.code === 'invalid_json' ? oauthError('invalid_client_metadata') : refuse(context, body.error);
    }
    if (context.bodyBytes > REGISTRATION_BYTES_MAX) return refuse(context, { code: 'payload_too_large' });
    const registration = registrationOf(body.value, redirects);
    if (!registration.ok) return failed(context, registration.error);
    const clientId = await clients.idOf(registration.value.redirect_uris, shownName(registration.value.client_name));
    return json(201, { client_id: clientId, ...registration.value });
  }
  return { post, refuse };
}

type RegistrationError = 'invalid_redirect_uri' | 'invalid_client_metadata';

/**
 * Returns the response to a registration (RFC 7591 §3.2.1), with the admitted redirect URIs; an error if there are
 * none.
 */
function registrationOf(metadata: unknown, redirects: Redirects) {
  if (!isObject(metadata)) return err<RegistrationError>('invalid_client_metadata');
  const { redirect_uris: uris, client_name: name } = metadata;
  const areFew = Array.isArray(uris) && uris.length <= URIS_MAX && uris.every((uri) => typeof uri === 'string');
  if (!areFew || uris.join('').length > URIS_CHARS_MAX) return err<RegistrationError>('invalid_redirect_uri');
  const admitted = [...new Set(uris)].filter((uri) => isAdmitted(redirects, uri));
  if (admitted.length === 0) return err<RegistrationError>('invalid_redirect_uri');
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
  typeof name === 'string' && name.length <= NAME_CHARS_MAX && isStorable(name) && isVisible(name);
