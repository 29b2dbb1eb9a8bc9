// Owners who have changed of late. What was read of their keys before is out of date: it is told by a number, so that a
// change of one owner costs the same however many keys are remembered.

interface Change {
  /** Changes so far, with this one. */
  readonly number: number;
  /** Monotonic. From then on nothing is believed that was read before. */
  readonly untilMs: number;
}

export class ChangedOwners {
  readonly #changes = new Map<string, Change>(); // the oldest first
  readonly #max: number;
  readonly #keptMs: number;
  #number = 0;

  /** Creates the list. `keptMs`: how long what was read is believed at most. */
  constructor(max: number, keptMs: number) {
    this.#max = max;
    this.#keptMs = keptMs;
  }

  /** Returns the number of changes so far, for what is read now. */
  get number(): number {
    return this.#number;
  }

  /** Adds owners who have changed. Returns false if there are too many now: then all that was read is out of date. */
  add(owners: Iterable<string>, nowMs: number): boolean {
    this.#number += 1;
    for (const [owner, { untilMs }] of this.#changes) {
      if (nowMs < untilMs) break;
      this.#changes.delete(owner);
    }
    for (const owner of owners) {
      this.#changes.delete(owner);
      this.#changes.set(owner, { number: this.#number, untilMs: nowMs + this.#keptMs });
    }
    return this.#changes.size <= this.#max;
  }

  /** Returns whether the owner has changed since what has this number was read. */
  hasChangedSince(number: number, owner: string): boolean {
    return this.#changes.size > 0 && number < (this.#changes.get(owner)?.number ?? 0);
  }

  clear(): void {
    this.#changes.clear();
  }
}
