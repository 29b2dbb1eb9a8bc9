// A response of a KB or two that decodes to 512 MB.

import { constants, createBrotliCompress } from 'node:zlib';

const BOMB_MB = 512;

/** The most memory that a server may need for it. */
export const GROWTH_MB_MAX = 100;

async function compressed(): Promise<Uint8Array<ArrayBuffer>> {
  const stream = createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 3 } });
  const read = new Response(stream as unknown as ReadableStream).bytes();
  const piece = Buffer.alloc(1024 * 1024, ' ');
  for (let mb = 0; mb < BOMB_MB; mb += 1) await new Promise<void>((done) => stream.write(piece, () => done()));
  stream.end();
  return read;
}

/** Makes what responds with it. */
export async function makeBomb(): Promise<() => Response> {
  const body = await compressed();
  return () => new Response(body, { headers: { 'content-type': 'application/json', 'content-encoding': 'br' } });
}
