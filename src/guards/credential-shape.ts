// Which kind of credential a text is, by its shape alone, so that a refusal can say that the wrong kind was sent.

import { isKeyShaped } from '../keys/key-format.ts';

/** A JWT in compact form (RFC 7519 §3.1): its header is a JSON object, so its base64url begins with `eyJ`. */
const JWT_SHAPE = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/;

/** To be spread into a refusal of what was presented as a user token. */
export const keyInstead = (presented: string | null): { readonly sent?: 'api_key' } =>
  presented !== null && isKeyShaped(presented) ? { sent: 'api_key' } : {};

/** To be spread into a refusal of what was presented as a key. */
export const tokenInstead = (presented: string): { readonly sent?: 'user_token' } =>
  JWT_SHAPE.test(presented) ? { sent: 'user_token' } : {};
