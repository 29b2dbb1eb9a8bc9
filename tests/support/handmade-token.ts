// JWTs put together by hand, from parts that no library would write.

import { createHmac } from 'node:crypto';
import { TEST_SECRET } from './test-app.ts';

/** A part of a token: text and bytes as they are, anything else as JSON. */
export const encodePart = (part: unknown): string =>
  Buffer.from(part instanceof Uint8Array || typeof part === 'string' ? part : JSON.stringify(part)).toString(
    'base64url',
  );

/** A token with any header and payload, signed with `secret` as HS256 does. */
export function handmade(header: unknown, payload: unknown, secret: string | Buffer = TEST_SECRET): string {
  const signed = `${encodePart(header)}.${encodePart(payload)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}
