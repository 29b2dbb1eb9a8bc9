// Cursors of lists: a position, with what was asked for, because a position in one list means nothing in another.

const BASE64URL = { alphabet: 'base64url', omitPadding: true } as const;

/** The position of a key in a list: by `at`, and then by its row. */
export interface Place {
  readonly at: number;
  readonly row: number;
}

/** Returns the cursor of the page after a position, in the list of what was asked. */
export const cursorOf = ({ at, row }: Place, asked: object): string =>
  new TextEncoder().encode(JSON.stringify([at, row, asked])).toBase64(BASE64URL);

/** Returns the position in a cursor; undefined if it is none of this list. */
export function placeIn(cursor: string, asked: object): Place | undefined {
  try {
    const [at, row] = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(cursor, BASE64URL)));
    const isPlace = [at, row].every((part) => Number.isSafeInteger(part) && part >= 0);
    return isPlace && cursorOf({ at, row }, asked) === cursor ? { at, row } : undefined;
  } catch {
    return undefined;
  }
}
