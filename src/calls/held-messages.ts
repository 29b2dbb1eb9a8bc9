// Bounds the bytes of the messages whose calls are under way. A tool that waits holds its input, also when its client
// hung up, so that the number of connections bounds nothing.

/** For all clients together. */
const BYTES_MAX = 64 * 1024 * 1024;
/** From one network: so four at least are needed before others are refused. */
const BYTES_MAX_EACH = BYTES_MAX / 4;

export interface HeldMessages {
  /** Counts a message from a network as held. False, with nothing changed, when there is no room for it. */
  take(network: string, bytes: number): boolean;
  give(network: string, bytes: number): void;
}

export function createHeldMessages(): HeldMessages {
  const heldBy = new Map<string, number>(); // of networks that hold any
  let heldBytes = 0;
  return {
    take(network, bytes) {
      const own = (heldBy.get(network) ?? 0) + bytes;
      if (own > BYTES_MAX_EACH || heldBytes + bytes > BYTES_MAX) return false;
      heldBy.set(network, own);
      heldBytes += bytes;
      return true;
    },
    give(network, bytes) {
      const own = (heldBy.get(network) ?? 0) - bytes;
      if (own > 0) heldBy.set(network, own);
      else heldBy.delete(network);
      heldBytes -= bytes;
    },
  };
}
