// What services know secrets, owners and limits by, without learning whose they are: the first digits of an HMAC under a
// secret that all processes on the database share. Nobody who lacks the secret can make one of a text that he guesses.

import type { createHmac as CreateHmac } from 'node:crypto';

/** The first 16 hex digits of an HMAC-SHA-256 (RFC 2104). */
const DIGITS = 16;

/** The uses of the secret: equal texts have another code in each. */
type Use = 'mark' | 'cursor' | 'tell' | 'holder';

export interface Macs {
  /** The database whose secret it is. */
  readonly databaseId: string;
  /** Returns the code of a text, 16 hex digits, the same in every process. */
  of(use: Use, text: string): string;
}

export interface MacsOptions {
  readonly readSecret: () => Promise<string>;
  readonly databaseId: () => string;
}

/** Returns a function that resolves to the codes of the database as it is then. It reads the secret once. */
export function createMacs({ readSecret, databaseId }: MacsOptions): () => Promise<Macs> {
  let known: Macs | undefined;

  async function read(): Promise<Macs> {
    const { createHmac } = await import('node:crypto'); // takes 7 ms, and most servers have no use for it
    const id = databaseId();
    known = macsOf(id, await readSecret(), createHmac);
    return known;
  }

  return async () => (known?.databaseId === databaseId() ? known : read());
}

const macsOf = (databaseId: string, secret: string, createHmac: typeof CreateHmac): Macs => ({
  databaseId,
  of: (use, text) => createHmac('sha256', secret).update(`changes ${use} ${text}`).digest('hex').slice(0, DIGITS),
});

/** Returns what the change feed names when the keys of an owner may be different (db/README.md, changes). */
export const ownerChange = (owner: string): string => `owner:${owner}`;

/** Returns the mark of what the change feed names: the hash of a secret, or `owner:` and the name of an owner. */
export const markOf = (macs: Macs, changed: string): string => macs.of('mark', changed);
