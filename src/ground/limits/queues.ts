// One queue for each owner with waiting entries, served in turn (round robin). Every operation, even finding the longest
// queue, takes constant time in the number of owners. semaphore.ts decides who may wait, and for what.

/** A name, or a symbol for those who share everything, because no name can be equal to it. */
export type Owner = string | symbol;

export function createQueues<T>() {
  const queues = new Map<Owner, T[]>();
  const byLength: (Set<Owner> | undefined)[] = []; // index n: the owners with n waiting; the last is never empty
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
    /** Removes an entry, if it still waits. */
    remove(owner: Owner, one: T): void {
      const queue = queues.get(owner);
      const at = queue?.indexOf(one) ?? -1;
      if (queue !== undefined && at >= 0) take(owner, queue, at);
    },
    /** Removes an owner's first entry; its next one has its turn last. */
    shift(owner: Owner): void {
      const queue = queues.get(owner);
      if (queue === undefined) return;
      take(owner, queue, 0);
      if (queue.length === 0) return;
      queues.delete(owner);
      queues.set(owner, queue);
    },
    /** Yields each owner's first entry, in turn; an owner whose first was shifted comes again. */
    *turns(): Generator<readonly [owner: Owner, first: T]> {
      for (const [owner, [first]] of queues) if (first !== undefined) yield [owner, first];
    },
    /** Returns the last entry of one of the longest queues; null if nobody waits. */
    longest(): { readonly owner: Owner; readonly last: T; readonly length: number } | null {
      const [owner] = byLength.at(-1) ?? [];
      const last = owner === undefined ? undefined : queues.get(owner)?.at(-1);
      return owner === undefined || last === undefined ? null : { owner, last, length: byLength.length - 1 };
    },
  };
}
