// Signs texts that clients carry for the server (not encrypted), so that any process accepts what another gave out.

import { once } from './cache.ts';

export interface Signing {
  /** Reads the secret that all processes on the database share. */
  readonly readSecret: () => Promise<string>;
  /** Returns the database's id: each database has its own secret. */
  readonly databaseId: () => string;
}

const ALPHABET = { alphabet: 'base64url', omitPadding: true } as const;
/** The text, and its HMAC in hex, which unlike base64url has only one spelling. */
const SIGNED = /^([\w-]+)\.([0-9a-f]{64})$/;

/** Creates a function that resolves with what `derive` makes of the secret, once for each database. */
export function ofSecret<T>(
  { readSecret, databaseId }: Signing,
  derive: (secret: string, databaseId: string) => Promise<T>,
): () => Promise<T> {
  let known: { readonly databaseId: string; readonly derived: () => Promise<T> } | undefined;
  return () => {
    const current = databaseId();
    if (known?.databaseId !== current) {
      known = { databaseId: current, derived: once(async () => derive(await readSecret(), current)) };
    }
    return known.derived();
  };
}

/** Creates what signs. `use` separates uses of the secret: each derives its own key. */
export function createSignedText(signing: Signing, use: string) {
  const signingKey = ofSecret(signing, (secret) => deriveKey(secret, use));

  return {
    /** Signs a text. `about`: its context, which `read` must repeat. */
    async sign(text: string, about = ''): Promise<string> {
      const key = await signingKey();
      const encoded = bytesOf(text).toBase64(ALPHABET);
      const mac = await crypto.subtle.sign('HMAC', key, whole(encoded, about));
      return `${encoded}.${new Uint8Array(mac).toHex()}`;
    },

    /** Returns the text; null if it wasn't signed here, or for another context. */
    async read(signed: string, about = ''): Promise<string | null> {
      const [, encoded, mac] = SIGNED.exec(signed) ?? [];
      if (encoded === undefined || mac === undefined) return null;
      const key = await signingKey();
      const isOurs = await crypto.subtle.verify('HMAC', key, Uint8Array.fromHex(mac), whole(encoded, about));
      return isOurs ? new TextDecoder().decode(Uint8Array.fromBase64(encoded, ALPHABET)) : null;
    },
  };
}

/** Joins the two unambiguously, because encoded text has no dot. */
const whole = (encoded: string, about: string) => bytesOf(`${encoded}.${about}`);

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function deriveKey(secret: string, use: string): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', bytesOf(secret), 'HKDF', false, ['deriveKey']);
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: bytesOf(use) };
  const hmac = { name: 'HMAC', hash: 'SHA-256', length: 256 };
  return crypto.subtle.deriveKey(hkdf, base, hmac, false, ['sign', 'verify']);
}
