// Reads a JWT in compact form (RFC 7515 §7.1) without verifying it. Pure.

import { strictObject } from '../../ground/strict-json.ts';
import type { ParsedToken } from './checks.ts';

/** Jose also accepts padding and white space, which would give a token many spellings. */
const COMPACT_JWS = /^([\w-]+)\.([\w-]+)\.[\w-]+$/;

const TOKEN_CHARS_MAX = 16 * 1024;

/** Returns header and payload; null: the text isn't of this form, too long, or has a member twice, at any depth. */
export function parseToken(text: string): ParsedToken | null {
  if (text.length > TOKEN_CHARS_MAX) return null;
  const [, first = '', second = ''] = COMPACT_JWS.exec(text) ?? [];
  const [header, payload] = [objectIn(first), objectIn(second)];
  return header === null || payload === null ? null : { header, payload };
}

function objectIn(base64url: string) {
  try {
    return strictObject(Uint8Array.fromBase64(base64url, { alphabet: 'base64url', lastChunkHandling: 'loose' }));
  } catch {
    return null;
  }
}
