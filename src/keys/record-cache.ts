// Verified records by key hash, in bounded memory. Knows nothing of time: who owns it drops what changed.

import type { ApiKeyRecord } from './record.ts';

/** Both bounds hold for the cache as a whole. The bytes are an estimate: strings at one byte a character, plus overhead. */
export const CACHE_ENTRIES_MAX = 200_000;
export const CACHE_BYTES_MAX = 64 * 1024 * 1024;
/** What a record costs beside its texts: object, array, two map slots. Measured on Bun at about 400 bytes. */
const RECORD_OVERHEAD_BYTES = 400;

export interface RecordCache {
  get(keyHash: string): ApiKeyRecord | undefined;
  set(record: ApiKeyRecord): void;
  delete(keyHash: string): void;
  clear(): void;
  readonly entries: number;
  readonly bytes: number;
}

/**
 * Two generations: a hit in the old one moves to the young one, and when the young one holds half of the bounds it
 * becomes the old one. So what is used stays, and a hit on a young record costs one look-up and no bookkeeping.
 */
export function createRecordCache(entriesMax = CACHE_ENTRIES_MAX, bytesMax = CACHE_BYTES_MAX): RecordCache {
  let young = new Map<string, ApiKeyRecord>();
  let old = new Map<string, ApiKeyRecord>();
  let youngBytes = 0;
  let oldBytes = 0;

  function put(record: ApiKeyRecord): void {
    const bytes = estimateBytes(record);
    if (young.size > 0 && (young.size + 1 > entriesMax / 2 || youngBytes + bytes > bytesMax / 2)) {
      old = young;
      oldBytes = youngBytes;
      young = new Map();
      youngBytes = 0;
    }
    young.set(record.keyHash, record);
    youngBytes += bytes;
  }

  function remove(keyHash: string): void {
    const inYoung = young.get(keyHash);
    if (inYoung !== undefined && young.delete(keyHash)) youngBytes -= estimateBytes(inYoung);
    const inOld = old.get(keyHash);
    if (inOld !== undefined && old.delete(keyHash)) oldBytes -= estimateBytes(inOld);
  }

  return {
    get(keyHash) {
      const hit = young.get(keyHash);
      if (hit !== undefined) return hit;
      const aged = old.get(keyHash);
      if (aged === undefined) return undefined;
      remove(keyHash);
      put(aged);
      return aged;
    },
    set(record) {
      remove(record.keyHash);
      put(record);
    },
    delete: remove,
    clear() {
      young = new Map();
      old = new Map();
      youngBytes = 0;
      oldBytes = 0;
    },
    get entries() {
      return young.size + old.size;
    },
    get bytes() {
      return youngBytes + oldBytes;
    },
  };
}

function estimateBytes(record: ApiKeyRecord): number {
  let chars = record.id.length + record.userId.length + record.name.length + record.keyHash.length;
  for (const scope of record.scopes) chars += scope.length + 16;
  return chars + RECORD_OVERHEAD_BYTES;
}
