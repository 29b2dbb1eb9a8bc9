// Finds keys for the verbs by their options, and formats a key as an object and as table cells, with its uses. Never shows a
// whole hash.

import { type AdminStore, type KeyFilter, LAST_ROW, type PlacedKey } from '../../doors/admin/index.ts';
import { type Quota, writtenLimit } from '../../ground/rate-limit.ts';
import { systemClock } from '../../ground/runtime.ts';
import { shownServer } from '../../keys/audience.ts';
import { fingerprintOf, refusalAt } from '../../keys/record.ts';
import type { ChildRecord } from '../../keys/store.ts';
import type { Store } from '../../store/open.ts';
import { createShownUses, NOTHING_KNOWN, type Used, type Uses } from '../../uses/shown-uses.ts';
import { cut, isoTime, localTime, type Progress } from '../io.ts';
import type { FILTER, ValuesOf } from '../options.ts';

interface KeyFacts {
  readonly used: Used;
  /** The URL at which clients find the server; null: PUBLIC_URL isn't set. */
  readonly publicUrl: string | null;
  /** The server's quota, for keys without one of their own. */
  readonly keyDefaults: { readonly quota: Quota | null };
  /** How many living children it has; undefined: none. */
  readonly children?: number | undefined;
}

/** A server without PUBLIC_URL has as many names as clients use. */
const UNNAMED = 'this server';

export const keyObject = (key: PlacedKey, { used, keyDefaults, publicUrl, children }: KeyFacts) => ({
  id: key.id,
  owner: key.userId,
  name: key.name,
  scopes: key.scopes,
  active: key.active,
  blocked: key.blocked,
  createdAt: isoTime(key.createdAtMs),
  expiresAt: isoTime(key.expiresAtMs),
  lastUsedAt: isoTime(key.lastUsedAtMs),
  fingerprint: fingerprintOf(key.keyHash),
  resource: key.resource && shownServer(key.resource, publicUrl ?? UNNAMED),
  ...(key.rateLimit !== null && { rateLimit: writtenLimit(key.rateLimit) }),
  ...quotaIn(used, key.quota ?? keyDefaults.quota),
  ...(key.metadata !== null && { metadata: key.metadata }),
  ...(used.uses !== null && { uses: used.uses }),
  ...(children !== undefined && { children }),
  ...(key.rules > 0 && { rules: key.rules }),
});

const quotaIn = ({ leftOf }: Used, quota: Quota | null) => quota && { quota: leftOf(quota) };

/** Returns a child (a key that another key has made) as JSON shows it. */
export const childObject = (child: ChildRecord, publicUrl: string | null, isLiving = true) => ({
  id: child.id,
  owner: child.userId,
  parentId: child.parentId,
  name: child.name,
  scopes: child.scopes,
  active: isLiving,
  createdAt: isoTime(child.createdAtMs),
  expiresAt: isoTime(child.expiresAtMs),
  fingerprint: fingerprintOf(child.keyHash),
  resource: child.resource && shownServer(child.resource, publicUrl ?? UNNAMED),
});

const stateOf = (key: PlacedKey, nowMs: number) =>
  refusalAt({ ...key, secretEndsAtMs: null, barred: key.blocked ? 'blocked' : null }, nowMs) ?? 'active';

export const WIDE = {
  heads: ['ID', 'OWNER', 'NAME', 'SCOPES', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'FINGERPRINT', 'RESOURCE'],
  cells: (key: PlacedKey, nowMs: number) => [
    key.id,
    key.userId,
    key.name,
    key.scopes.join(' ') || '-',
    stateOf(key, nowMs),
    localTime(key.createdAtMs),
    localTime(key.expiresAtMs),
    localTime(key.lastUsedAtMs),
    fingerprintOf(key.keyHash),
    key.resource === null ? '-' : shownServer(key.resource, UNNAMED),
  ],
};

/** 80 columns, less 32 for an id, 7 for a state, 10 for a day, and the gaps. */
const OWNER_COLUMNS = 12;
const NAME_COLUMNS = 11;
const DAY_CHARS = 10;

export const NARROW = {
  heads: ['ID', 'OWNER', 'NAME', 'STATE', 'LAST USED'],
  cells: (key: PlacedKey, nowMs: number) => [
    key.id,
    cut(key.userId, OWNER_COLUMNS),
    cut(key.name, NAME_COLUMNS),
    stateOf(key, nowMs),
    localTime(key.lastUsedAtMs).slice(0, DAY_CHARS),
  ],
};

/** Returns what was used of keys. The last seconds may be missing. */
export const usesOf = (store: Store, keys: readonly PlacedKey[]): Promise<(keyId: string) => Used> =>
  createShownUses(store, systemClock, NOTHING_KNOWN).usesOf(keys.map(({ id }) => id));

export const usesOf30Days = (uses: Uses | null): number =>
  uses === null ? 0 : uses.last30Days.reduce((sum, count) => sum + count, 0);

export const PAGE_ROWS = 500;

/** Yields pages of keys, newest first; at least one page. */
export async function* keyPages(store: AdminStore, filter: KeyFilter, nowMs: number, progress: Progress) {
  let newest: number | undefined;
  for (let before: number | undefined = LAST_ROW; before !== undefined; ) {
    const page: readonly PlacedKey[] = await store.page(filter, nowMs, before, PAGE_ROWS, progress);
    yield page;
    const [first, last] = [page[0], page.at(-1)];
    newest ??= first?.row;
    if (newest !== undefined && last !== undefined) progress(newest - last.row, newest);
    before = page.length < PAGE_ROWS ? undefined : last?.row;
  }
}

type FilterValues = ValuesOf<typeof FILTER> & { readonly 'expires-within'?: number | undefined };

export function filterOf({ user: owner, scope, ...times }: FilterValues, nowMs: number): KeyFilter {
  const { 'created-after': createdFromMs, 'unused-for': unusedMs, 'expires-within': leftMs } = times;
  return {
    owner,
    scope,
    createdFromMs,
    unusedSinceMs: unusedMs === undefined ? undefined : nowMs - unusedMs,
    expiresByMs: leftMs === undefined ? undefined : nowMs + leftMs,
  };
}
