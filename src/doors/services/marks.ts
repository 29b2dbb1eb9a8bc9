// Computes the MACs by which services know secrets, owners and limits without learning whose they are: truncated HMACs
// under a secret that all processes on the database share. Without it nobody can compute the MAC of a guessed text.

import { ofSecret, type Signing } from '../../ground/signed-text.ts';

/** The first 16 hex digits of an HMAC-SHA-256 (RFC 2104). */
const DIGITS = 16;

/**
 * What a MAC is for: equal texts have different MACs for different uses (domain separation). A mark is that of a name in the
 * change feed: the hash of a secret or rule, `rules`, or `owner:` and an owner.
 */
type Use = 'mark' | 'cursor' | 'tell' | 'holder';

export interface Macs {
  /** The database that the secret belongs to. */
  readonly databaseId: string;
  /** Returns the MAC of a text, 16 hex digits, the same in every process. */
  of(use: Use, text: string): string;
}

/** Returns a function that resolves to the current database's MACs. */
export const createMacs = (signing: Signing): (() => Promise<Macs>) =>
  ofSecret(signing, async (secret, databaseId) => {
    const { createHmac } = await import('node:crypto'); // takes 7 ms, and most servers have no use for it
    return {
      databaseId,
      of: (use, text) => createHmac('sha256', secret).update(`changes ${use} ${text}`).digest('hex').slice(0, DIGITS),
    };
  });
