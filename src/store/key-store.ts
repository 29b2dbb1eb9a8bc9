// KeyStore over a Database: its reads, its changes, and the counts of uses.

import type { Database } from '../database/database.ts';
import type { KeyStore } from '../keys/store.ts';
import { countsStore } from './counts.ts';
import { keyChanges } from './key-changes.ts';
import { keyReads, type NearbyCopy } from './key-reads.ts';

export interface KeyStoreOptions {
  readonly primary: Database;
  readonly usesPerWrite: number;
  readonly replica?: NearbyCopy | null;
}

export const createKeyStore = ({ primary, usesPerWrite, replica = null }: KeyStoreOptions): KeyStore => ({
  ...keyReads(primary, replica),
  ...keyChanges(primary),
  ...countsStore(primary),
  usesPerWrite,
});
