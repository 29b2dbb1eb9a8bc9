// What a client sends to /token (RFC 6749 §4.1.3, RFC 7636 §4.5, RFC 8707 §2.2), and whether it fits the code. Pure.

import type { ConnectConfig } from '../config/connect.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Sha256 } from '../lib/runtime.ts';
import type { OpenedCode } from './codes.ts';
import { hasTwice, isResource, isSameResource, parameter } from './request.ts';

/** RFC 6749 §5.2, RFC 8707 §2. */
export type TokenError =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unsupported_grant_type'
  | 'invalid_target';

export interface TokenRequest {
  readonly clientId: string;
  readonly code: string;
  readonly verifier: string;
  readonly redirectUri: string | null;
  readonly resource: string | null;
}

export function tokenRequestOf(form: URLSearchParams): Result<TokenRequest, TokenError> {
  const get = (name: string) => parameter(form, name);
  if (hasTwice(form)) return err('invalid_request');
  const grantType = get('grant_type');
  if (grantType === null) return err('invalid_request');
  if (grantType !== 'authorization_code') return err('unsupported_grant_type');
  const [clientId, code, verifier] = [get('client_id'), get('code'), get('code_verifier')];
  if (clientId === null || code === null || verifier === null) return err('invalid_request');
  return ok({ clientId, code, verifier, redirectUri: get('redirect_uri'), resource: get('resource') });
}

/** RFC 7636 §4.1. */
const VERIFIER = /^[\w.~-]{43,128}$/;

export interface FitOptions {
  readonly config: ConnectConfig;
  readonly publicUrl: string;
  readonly sha256: Sha256;
}

/** Null if the code was made for this client, verifier, redirect and resource. */
export function misfit(asked: TokenRequest, code: OpenedCode, options: FitOptions): TokenError | null {
  const { config, publicUrl, sha256 } = options;
  if (sha256(asked.clientId, 'base64url') !== code.client) return 'invalid_grant';
  if (!VERIFIER.test(asked.verifier) || sha256(asked.verifier, 'base64url') !== code.challenge) return 'invalid_grant';
  if (asked.redirectUri !== null && asked.redirectUri !== code.redirectUri) return 'invalid_grant';
  if (asked.resource === null) return null;
  const isSame =
    code.resource === null
      ? isResource(asked.resource, { ...config, resources: [] }, publicUrl) // not said: for this server
      : isSameResource(asked.resource, code.resource);
  return isSame ? null : 'invalid_target';
}
