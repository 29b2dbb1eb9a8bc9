// A response body of texts, encoded piece by piece, so that there is never a second copy of one, and handed to the
// runtime only as fast as the client reads. Bounding what waits is left to the caller.

type Utf8 = Uint8Array<ArrayBuffer>;

const utf8 = new TextEncoder();

interface Waiting {
  readonly text: string;
  /** Index of the first character that was not handed over. */
  from: number;
  readonly bytes: number;
}

export interface PacedBody {
  readonly stream: ReadableStream<Utf8>;
  /** `bytes`: what the text takes in memory. */
  put(text: string, bytes: number): void;
  /** Ends the body once all is handed over. */
  finish(): void;
  /** Ends the body now, and drops what waits; with an error, so that the client sees that something is missing. */
  cut(error?: Error): void;
  /** In memory, of all texts that are not completely handed over. */
  readonly bytes: number;
  readonly isEmpty: boolean;
}

export interface PacedBodyOptions {
  readonly pieceBytes: number;
  readonly onPiece: (bytes: number) => void;
  /** Runs once: just before the body ends, or when the client has left. */
  readonly onGone: () => void;
}

export function openPacedBody({ pieceBytes, onPiece, onGone }: PacedBodyOptions): PacedBody {
  let waiting: Waiting[] = [];
  let waitingBytes = 0;
  let isWanted = false; // the runtime has sent what it was given, and waits for more
  let isFinished = false;
  let controller: ReadableStreamDefaultController<Utf8> | undefined;

  const stream = new ReadableStream<Utf8>(
    {
      start(opened) {
        controller = opened;
      },
      pull() {
        isWanted = true;
        handOver();
      },
      cancel: leave,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
  );

  function nextPiece(): Utf8 {
    const piece = new Uint8Array(Math.min(pieceBytes, 3 * waitingBytes)); // a character has at most three bytes
    let length = 0;
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const room = piece.subarray(length);
      // A surrogate pair that the slice cuts in half finds no room, after all others.
      const { read, written } = utf8.encodeInto(first.text.slice(first.from, first.from + room.length), room);
      first.from += read;
      length += written;
      if (first.from < first.text.length) break; // the piece is full
      waiting.shift();
      waitingBytes -= first.bytes;
    }
    return length > piece.length / 2 ? piece.subarray(0, length) : piece.slice(0, length);
  }

  function handOver(): void {
    if (isWanted && waiting.length > 0) {
      isWanted = false;
      const piece = nextPiece();
      onPiece(piece.length);
      controller?.enqueue(piece);
    }
    if (isFinished && waiting.length === 0) cut();
  }

  function leave(): void {
    if (controller === undefined) return;
    controller = undefined;
    waiting = [];
    waitingBytes = 0;
    onGone();
  }

  function cut(error?: Error): void {
    const open = controller;
    leave();
    if (error === undefined) open?.close();
    else open?.error(error);
  }

  return {
    stream,
    put(text, bytes) {
      waiting.push({ text, from: 0, bytes });
      waitingBytes += bytes;
      handOver();
    },
    finish() {
      isFinished = true;
      handOver();
    },
    cut,
    get bytes() {
      return waitingBytes;
    },
    get isEmpty() {
      return waiting.length === 0;
    },
  };
}
