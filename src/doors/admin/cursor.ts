// Cursors of lists: a position, with what was asked for, because a position in one list means nothing in another.

const BASE64URL = { alphabet: 'base64url', omitPadding: true } as const;

export type Place = readonly [number, number];

/** Returns the cursor of the page after a position, in the list of what was asked. */
export const cursorOf = (place: Place, asked: object): string =>
  new TextEncoder().encode(JSON.stringify([...place, asked])).toBase64(BASE64URL);

/** Returns the position in a cursor; undefined if it is none of this list. */
export function placeIn(cursor: string, asked: object): Place | undefined {
  try {
    const [at, row] = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(cursor, BASE64URL)));
    const place: Place = [at, row];
    return place.every((part) => Number.isSafeInteger(part) && part >= 0) && cursorOf(place, asked) === cursor
      ? place
      : undefined;
  } catch {
    return undefined;
  }
}
