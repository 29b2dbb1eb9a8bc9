// Validates, merges and encodes metadata: an operator's data on an owner or key, a few short named texts. Headers carry it
// percent-encoded, which bounds its size.

import { hasLength, isObject, type JsonObject, percentEncode } from './text.ts';

export type Metadata = Readonly<Record<string, string>>;

export const METADATA_NAMES_MAX = 20;
export const METADATA_VALUE_MAX = 200;
/** Bytes of the percent-encoded JSON: an owner's and a key's together fit into a proxy's 4 KB. */
const METADATA_BYTES_MAX = 1000;

const NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** What is expected, for error messages. */
export const METADATA_WANTED = `an object of at most ${METADATA_NAMES_MAX} texts of at most ${METADATA_VALUE_MAX} characters, by names like plan or plan_2, together ${METADATA_BYTES_MAX} bytes as percent-encoded JSON`;

/** Returns the metadata with sorted names; null for null and `{}`; undefined if it isn't valid. */
export function metadataFrom(value: unknown): Metadata | null | undefined {
  if (value === null) return null;
  if (!isObject(value)) return undefined;
  const entries = Object.entries(value);
  if (entries.length === 0) return null;
  if (entries.length > METADATA_NAMES_MAX || !entries.every(isEntry)) return undefined;
  const metadata = Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  return metadataText(metadata).length > METADATA_BYTES_MAX ? undefined : metadata;
}

const isEntry = (entry: [name: string, value: unknown]): entry is [string, string] => {
  const [name, value] = entry;
  return (
    NAME.test(name) && typeof value === 'string' && value.isWellFormed() && hasLength(value, 0, METADATA_VALUE_MAX)
  );
};

/**
 * Returns metadata of the database, where a shell may have typed other values than texts: those as JSON writes them; null for
 * `{}`. Frozen, because an operator's tools see it.
 */
export function storedMetadata(stored: JsonObject): Metadata | null {
  const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  const entries = Object.entries(stored).map(([name, value]) => [name, textOf(value)]);
  return entries.length === 0 ? null : Object.freeze(Object.fromEntries(entries));
}

/** Returns the header value: empty for none. */
export const metadataText = (metadata: Metadata | null): string =>
  metadata === null ? '' : percentEncode(JSON.stringify(metadata));

/** Returns the owner's metadata, overridden by the key's name by name; null: none. */
export function mergedMetadata(ofOwner: Metadata | null, ofKey: Metadata | null): Metadata | null {
  if (ofOwner === null || ofKey === null) return ofOwner ?? ofKey;
  return { ...ofOwner, ...ofKey };
}
