// Making room in a bounded map.

/** Removes the entry that was inserted first, if there is one. */
export function forgetOldest(map: Map<string, unknown>): void {
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}
