// A server whose every answer goes on and on: it ends after 256 MiB, or a client that reads on would fill the machine's
// memory.

const ANSWER_MIB = 256;
/** More than what a client may have read, and what is on its way. */
export const READ_MIB_MAX = 64;

export function startEndless() {
  let sentMib = 0;
  const answer = () => {
    const endMib = sentMib + ANSWER_MIB;
    return new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(1024 * 1024));
        sentMib += 1;
        if (sentMib >= endMib) controller.close();
      },
    });
  };
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(answer()) });
  return {
    url: server.url.origin,
    /** What all answers so far had. */
    sentMib: () => sentMib,
    [Symbol.dispose]: () => void server.stop(true),
  };
}
