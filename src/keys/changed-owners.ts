// Tracks owners that changed recently. Whatever was read about their keys before is stale; a version number shows it,
// so a change costs the same however many keys are cached.

interface Change {
  /** The version that this change made. */
  readonly version: number;
  /** Monotonic. By then every cache entry read before the change has expired. */
  readonly untilMs: number;
}

export class ChangedOwners {
  readonly #changes = new Map<string, Change>(); // the oldest first
  readonly #max: number;
  readonly #entryTtlMs: number;
  #version = 0;
  /** The version in which all owners changed. */
  #allVersion = 0;

  /** Creates the list. `entryTtlMs`: the longest life of a cache entry. */
  constructor(max: number, entryTtlMs: number) {
    this.#max = max;
    this.#entryTtlMs = entryTtlMs;
  }

  /** Returns the current version, to store with what is read now. */
  get version(): number {
    return this.#version;
  }

  /** Adds owners that changed; beyond the maximum, all. */
  add(owners: Iterable<string>, nowMs: number): void {
    this.#version += 1;
    for (const [owner, { untilMs }] of this.#changes) {
      if (nowMs < untilMs) break;
      this.#changes.delete(owner);
    }
    for (const owner of owners) {
      this.#changes.delete(owner);
      this.#changes.set(owner, { version: this.#version, untilMs: nowMs + this.#entryTtlMs });
    }
    if (this.#changes.size > this.#max) this.addAll();
  }

  /** Adds all owners: anything may have changed. */
  addAll(): void {
    this.#version += 1;
    this.#allVersion = this.#version;
    this.#changes.clear();
  }

  /** Returns whether the owner has changed since this version. */
  hasChangedSince(version: number, owner: string): boolean {
    if (version < this.#allVersion) return true;
    return this.#changes.size > 0 && version < (this.#changes.get(owner)?.version ?? 0);
  }
}
