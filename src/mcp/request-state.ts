// requestState: what a client carries from one round of a call to the next (2026-07-28, basic/patterns/mrtr), so that
// the server keeps nothing and any process can take the next round. Signed, not encrypted: it holds the client's own
// responses.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { JsonObject } from '../lib/text.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';

/** How long a person may take to respond. */
const STATE_TTL_MS = 10 * 60 * 1000;

export interface RequestStates {
  /** `subject` is what the call is about; the state opens for no other. */
  seal(subject: string, responses: JsonObject): Promise<Result<string, Problem>>;
  open(subject: string, state: string): Promise<Result<JsonObject, Problem>>;
}

export interface RequestStateOptions {
  /** The secret that all processes on the database share. */
  readonly readSecret: () => Promise<Result<string, StoreUnavailable>>;
  /** Which database it is: another one has another secret. */
  readonly databaseId: () => string;
  readonly clock: Clock;
}

interface Payload {
  readonly expiresAtMs: number;
  readonly responses: JsonObject;
}

const INVALID_STATE = err({ code: 'invalid_state' } as const);
const ALPHABET = { alphabet: 'base64url', omitPadding: true } as const;
/** The payload, and the HMAC in hex, in which it has one form only. */
const STATE = /^([\w-]+)\.([0-9a-f]{64})$/;

export function createRequestStates({ readSecret, databaseId, clock }: RequestStateOptions): RequestStates {
  let known: { readonly databaseId: string; readonly key: CryptoKey } | undefined;

  async function signingKey(): Promise<Result<CryptoKey, Problem>> {
    const current = databaseId();
    if (known?.databaseId === current) return ok(known.key);
    const secret = await readSecret();
    if (!secret.ok) return secret;
    const key = await deriveKey(secret.value);
    known = { databaseId: current, key };
    return ok(key);
  }

  return {
    async seal(subject, responses) {
      const key = await signingKey();
      if (!key.ok) return key;
      const content: Payload = { expiresAtMs: clock.nowMs() + STATE_TTL_MS, responses };
      const payload = bytesOf(JSON.stringify(content)).toBase64(ALPHABET);
      const signature = await crypto.subtle.sign('HMAC', key.value, signed(payload, subject));
      return ok(`${payload}.${new Uint8Array(signature).toHex()}`);
    },
    async open(subject, state) {
      const [, payload, signature] = STATE.exec(state) ?? [];
      if (payload === undefined || signature === undefined) return INVALID_STATE;
      const key = await signingKey();
      if (!key.ok) return key;
      const isOurs = await crypto.subtle.verify(
        'HMAC',
        key.value,
        Uint8Array.fromHex(signature),
        signed(payload, subject),
      );
      if (!isOurs) return INVALID_STATE;
      // Signed, so it is what was sealed.
      const text = new TextDecoder().decode(Uint8Array.fromBase64(payload, ALPHABET));
      const { expiresAtMs, responses } = JSON.parse(text) as Payload;
      return clock.nowMs() < expiresAtMs ? ok(responses) : INVALID_STATE;
    },
  };
}

/** No payload has a dot, so no other pair gives the same bytes. */
const signed = (payload: string, subject: string) => bytesOf(`${payload}.${subject}`);

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** The secret may sign other things one day: each use has a key of its own. */
async function deriveKey(secret: string): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', bytesOf(secret), 'HKDF', false, ['deriveKey']);
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: bytesOf('MCP requestState') };
  const hmac = { name: 'HMAC', hash: 'SHA-256', length: 256 };
  return crypto.subtle.deriveKey(hkdf, base, hmac, false, ['sign', 'verify']);
}
