// Parses `--meta`: `plan=pro` for each name, or `none`.

import { METADATA_WANTED, type Metadata, metadataFrom } from '../ground/metadata.ts';
import { UsageError } from './io.ts';
import { kind } from './options.ts';

const NONE = 'none';

export const META = kind('NAME=VALUE', 'a name and a value, like plan=pro, or none', (given) =>
  given === NONE || given.includes('=') ? given : null,
);

/** Returns the metadata of the options: undefined if there are none, null for `none`. Throws a UsageError. */
export function metadataOf(given: readonly string[]): Metadata | null | undefined {
  if (given.length === 0) return undefined;
  if (given.length === 1 && given[0] === NONE) return null;
  const pairs = given.map((pair) => {
    const at = pair.indexOf('=');
    if (at === -1) throw new UsageError('--meta: expected none alone, or names with values');
    return [pair.slice(0, at), pair.slice(at + 1)] as const;
  });
  if (new Set(pairs.map(([name]) => name)).size < pairs.length) {
    throw new UsageError('--meta: expected each name once');
  }
  const metadata = metadataFrom(Object.fromEntries(pairs));
  if (metadata === undefined) throw new UsageError(`--meta: expected ${METADATA_WANTED}`);
  return metadata;
}
