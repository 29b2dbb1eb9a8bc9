// Gathers lines as bytes and hands them over in chunks. As texts they would be made of a dozen strings each, at nearly
// every call.

/** A line waits at most this long: short enough to watch, long enough for thousands of lines to share one write. */
const FLUSH_AFTER_MS = 50;
/** Once so many bytes wait, a write starts. */
const CHUNK_BYTES = 64 * 1024;
/** Kept for a slow reader. Beyond this, lines are dropped and counted. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;

/** Takes a chunk of whole lines; resolves when the chunk has left the process. */
export type LogWrite = (chunk: Uint8Array) => Promise<void>;

export class LineWriter {
  readonly #write: LogWrite;
  readonly #onDropped: (count: number) => void;
  readonly #chunk = new Uint8Array(CHUNK_BYTES);
  #used = 0;
  /** Bytes that were handed over, and are not taken yet. */
  #pendingBytes = 0;
  #dropped = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** Creates the writer. `onDropped` is told how many lines were dropped, once there is room again. */
  constructor(write: LogWrite, onDropped: (count: number) => void) {
    this.#write = write;
    this.#onDropped = onDropped;
  }

  /**
   * Begins a line of at most so many bytes, which `add` and `addAscii` then write. Returns false, and counts the line, if
   * it has to be dropped.
   */
  begin(bytes: number): boolean {
    if (this.#used + this.#pendingBytes > WAITING_BYTES_MAX) {
      this.#dropped += 1;
      return false;
    }
    if (this.#used + bytes > CHUNK_BYTES) void this.flush();
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_AFTER_MS);
    return true;
  }

  add(bytes: Uint8Array): void {
    if (bytes.length > CHUNK_BYTES) return void this.#handOver(bytes);
    this.#chunk.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  addAscii(text: string): void {
    const { length } = text;
    for (let at = 0; at < length; at += 1) this.#chunk[this.#used + at] = text.charCodeAt(at);
    this.#used += length;
  }

  /** Hands over what has gathered. Resolves when all was taken. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#used === 0) return this.#writing;
    const chunk = this.#chunk.slice(0, this.#used);
    this.#used = 0;
    return this.#handOver(chunk);
  }

  #handOver(chunk: Uint8Array): Promise<void> {
    this.#pendingBytes += chunk.length;
    this.#writing = this.#writing
      .then(() => this.#write(chunk))
      .catch(() => {}) // stdout is closed
      .then(() => {
        this.#pendingBytes -= chunk.length;
        const dropped = this.#dropped;
        if (dropped === 0 || this.#pendingBytes > 0) return;
        this.#dropped = 0;
        this.#onDropped(dropped);
      });
    return this.#writing;
  }
}
