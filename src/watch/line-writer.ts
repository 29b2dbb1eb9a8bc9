// Buffers log lines as bytes and writes them in chunks. Strings would have to be concatenated from a dozen each, at nearly
// every call.

/** A line waits at most this long: short enough to watch, long enough for thousands of lines to share one write. */
const FLUSH_AFTER_MS = 50;
/** A write starts once this many bytes are buffered. */
const CHUNK_BYTES = 64 * 1024;
/** Buffered for a slow reader. Beyond it, lines are dropped and counted. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;

/** Takes a chunk of whole lines; resolves when the chunk has left the process. */
export type LogWrite = (chunk: Uint8Array) => Promise<void>;

export class LineWriter {
  readonly #write: LogWrite;
  readonly #onDropped: (count: number) => void;
  readonly #chunk = new Uint8Array(CHUNK_BYTES);
  #used = 0;
  /** Bytes passed to `write` that have not left the process. */
  #pendingBytes = 0;
  #dropped = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** Creates the writer. It calls `onDropped` with the number of dropped lines once there is room again. */
  constructor(write: LogWrite, onDropped: (count: number) => void) {
    this.#write = write;
    this.#onDropped = onDropped;
  }

  /** Begins a line of at most this many bytes for `add` and `addAscii`. Returns false if it is dropped, and counts it. */
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

  /** Writes what is buffered. Resolves when everything has left the process. */
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
