// Words the message about a bad setting, for all rooms, and finds misspellings.

/** Returns the message about a bad setting. `got`: the value as it may be shown, if at all. */
export const expected = (name: string, what: string, got?: string): string =>
  `${name}: expected ${what}${got === undefined ? '' : `, got ${JSON.stringify(got)}`}`;

/** Takes the arguments of `expected`. */
export type NoteFault = (...fault: Parameters<typeof expected>) => void;

/** Returns whether at most `editsMax` insertions, deletions, replacements or swaps of neighbours turn `a` into `b`. */
export function isWithinEdits(a: string, b: string, editsMax: number): boolean {
  if (a === b) return true;
  if (editsMax === 0 || Math.abs(a.length - b.length) > editsMax) return false;
  let same = 0;
  while (a[same] === b[same]) same += 1;
  const [restA, restB] = [a.slice(same), b.slice(same)];
  const after = (skippedA: number, skippedB: number) =>
    isWithinEdits(restA.slice(skippedA), restB.slice(skippedB), editsMax - 1);
  const isSwapped = restA[0] === restB[1] && restA[1] === restB[0];
  return after(1, 1) || after(1, 0) || after(0, 1) || (isSwapped && after(2, 2));
}
