// Authorization codes: sealed (JWE, `dir`, A256GCM), so that any process can redeem one and nothing is stored until
// then. A code holds the key; without the secret of its hour, which the store removes, it is worthless.

import { endedHourAt, type HandingOutStore, hourAt } from '../keys/store.ts';
import { ok, type Result } from '../lib/result.ts';
import type { Clock, RandomBytes } from '../lib/runtime.ts';
import type { StoreResult, StoreUnavailable } from '../problem.ts';

export interface CodeContent {
  readonly key: string;
  /** SHA-256 of the client's id. */
  readonly client: string;
  /** Of PKCE (RFC 7636), method S256. */
  readonly challenge: string;
  readonly redirectUri: string;
  /** Null: not given. */
  readonly resource: string | null;
}

export interface OpenedCode extends CodeContent {
  /** Unique. */
  readonly number: string;
}

export interface Codes {
  seal(content: CodeContent): Promise<Result<string, StoreUnavailable>>;
  /** Null: no code of this database, or too old. */
  open(code: string): Promise<Result<OpenedCode | null, StoreUnavailable>>;
}

/** For the client's one request, even a slow one. */
const CODE_TTL_MS = 60_000;

/** Tolerance for the clocks of processes, at the beginning of an hour. */
const CLOCKS_DIFFER_MS = 10_000;

const NUMBER_BYTES = 16;

export interface CodesOptions {
  readonly store: HandingOutStore;
  /** Which database it is: another one has other secrets. */
  readonly databaseId: () => string;
  readonly clock: Clock;
  readonly random: RandomBytes;
}

export function createCodes({ store, databaseId, clock, random }: CodesOptions): Codes {
  let known = { databaseId: '', secrets: new Map<number, string>() };

  /** From memory, else from `read`. */
  async function secretOf<Hex extends string | null>(hour: number, read: (hour: number) => StoreResult<Hex>) {
    const current = databaseId();
    if (known.databaseId !== current) known = { databaseId: current, secrets: new Map() };
    const { secrets } = known;
    for (const old of secrets.keys()) if (old <= endedHourAt(clock.nowMs())) secrets.delete(old);
    const kept = secrets.get(hour);
    if (kept !== undefined) return ok(kept);
    const secret = await read(hour);
    if (secret.ok && secret.value !== null) secrets.set(hour, secret.value);
    return secret;
  }

  return {
    async seal(content) {
      const nowMs = clock.nowMs();
      const hour = hourAt(nowMs);
      const secret = await secretOf(hour, store.makeCodeSecret);
      if (!secret.ok) return secret;
      const sealed = { ...content, number: random(NUMBER_BYTES).toHex(), endsAtMs: nowMs + CODE_TTL_MS };
      const { CompactEncrypt } = await import('jose/jwe/compact/encrypt');
      const code = await new CompactEncrypt(new TextEncoder().encode(JSON.stringify(sealed)))
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: String(hour) })
        .encrypt(Uint8Array.fromHex(secret.value));
      return ok(code);
    },

    async open(code) {
      const nowMs = clock.nowMs();
      const hour = await hourOf(code);
      const earliest = hourAt(nowMs - CODE_TTL_MS - CLOCKS_DIFFER_MS);
      if (hour === null || hour < earliest || hour > hourAt(nowMs + CLOCKS_DIFFER_MS)) return ok(null);
      const secret = await secretOf(hour, store.codeSecret);
      if (!secret.ok) return secret;
      if (secret.value === null) return ok(null);
      const { compactDecrypt } = await import('jose/jwe/compact/decrypt');
      try {
        const options = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
        const { plaintext } = await compactDecrypt(code, Uint8Array.fromHex(secret.value), options);
        // Sealed here, so of this shape.
        const opened = JSON.parse(new TextDecoder().decode(plaintext)) as OpenedCode & { readonly endsAtMs: number };
        return ok(nowMs < opened.endsAtMs ? opened : null);
      } catch {
        return ok(null); // only the code can be wrong
      }
    },
  };
}

/** The hour in the header, which anybody may have written. */
async function hourOf(code: string): Promise<number | null> {
  const { decodeProtectedHeader } = await import('jose/decode/protected_header');
  try {
    const { kid } = decodeProtectedHeader(code);
    return kid === undefined || !/^\d{1,9}$/.test(kid) ? null : Number(kid);
  } catch {
    return null;
  }
}
