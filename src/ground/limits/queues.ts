// Queues, one for each owner with somebody waiting, in the order of their turns. Each step takes the same time however
// many owners wait, the search for the longest queue too. Who may wait, and for what, is up to semaphore.ts.

/** A name, or a symbol for those who share everything: nobody can choose to be called so. */
export type Owner = string | symbol;

export function createQueues<T>() {
  const queues = new Map<Owner, T[]>();
  const byLength: (Set<Owner> | undefined)[] = []; // at n: the owners of whom n wait; its last one has some
  let size = 0;

  function resized(owner: Owner, before: number, after: number): void {
    size += after - before;
    byLength[before]?.delete(owner);
    if (after > 0) {
      const owners = byLength[after] ?? new Set();
      byLength[after] = owners.add(owner);
    }
    while (byLength.length > 0 && (byLength.at(-1)?.size ?? 0) === 0) byLength.pop();
  }

  function take(owner: Owner, queue: T[], at: number): void {
    queue.splice(at, 1);
    resized(owner, queue.length + 1, queue.length);
    if (queue.length === 0) queues.delete(owner);
  }

  return {
    /** Returns how many wait in all. */
    get size() {
      return size;
    },
    lengthOf: (owner: Owner): number => queues.get(owner)?.length ?? 0,
    push(owner: Owner, one: T): void {
      const queue = queues.get(owner) ?? [];
      queues.set(owner, queue);
      queue.push(one);
      resized(owner, queue.length - 1, queue.length);
    },
    /** Removes one that waits; nothing if it doesn't wait any more. */
    remove(owner: Owner, one: T): void {
      const queue = queues.get(owner);
      const at = queue?.indexOf(one) ?? -1;
      if (queue !== undefined && at >= 0) take(owner, queue, at);
    },
    /** Removes the first of an owner, whose next one waits for the end of the turns. */
    shift(owner: Owner): void {
      const queue = queues.get(owner);
      if (queue === undefined) return;
      take(owner, queue, 0);
      if (queue.length === 0) return;
      queues.delete(owner);
      queues.set(owner, queue);
    },
    /** Yields the first of each owner, in the order of their turns; an owner whose first was shifted comes by again. */
    *turns(): Generator<readonly [owner: Owner, first: T]> {
      for (const [owner, [first]] of queues) if (first !== undefined) yield [owner, first];
    },
    /** Returns the last of one of the longest queues; null if nobody waits. */
    longest(): { readonly owner: Owner; readonly last: T; readonly length: number } | null {
      const [owner] = byLength.at(-1) ?? [];
      const last = owner === undefined ? undefined : queues.get(owner)?.at(-1);
      return owner === undefined || last === undefined ? null : { owner, last, length: byLength.length - 1 };
    },
  };
}
