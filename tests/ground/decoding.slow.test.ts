// What other servers publish, in a KB or two that decode to 512 MB: counted as it is decoded, so neither memory nor
// the next fetch notices. Each kind of document that is fetched, on both runtimes.

import { afterAll, beforeAll, expect, test } from 'bun:test';
import { constants, createBrotliCompress } from 'node:zlib';
import { callOver } from '../support/client.ts';
import { type DocumentServer, serveDocuments } from '../support/client-documents.ts';
import { rows } from '../support/everything.ts';
import { createIssuer, JWKS_PATH } from '../support/issuer.ts';
import { peakResidentMbOf, residentMbOf, startServer } from '../support/server-process.ts';
import { waitFor } from '../support/wait-for.ts';

const BOMB_MB = 512;
const GROWTH_MB_MAX = 100;
const METADATA = '/.well-known/oauth-authorization-server';

let bomb: Uint8Array<ArrayBuffer>;
let vendor: DocumentServer;
beforeAll(async () => {
  bomb = await makeBomb();
  vendor = serveDocuments();
});
afterAll(() => vendor.stop());

async function makeBomb(): Promise<Uint8Array<ArrayBuffer>> {
  const stream = createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 3 } });
  const read = new Response(stream as unknown as ReadableStream).bytes();
  const piece = Buffer.alloc(1024 * 1024, ' ');
  for (let mb = 0; mb < BOMB_MB; mb += 1) await new Promise<void>((done) => stream.write(piece, () => done()));
  stream.end();
  return read;
}

const explode = () => new Response(bomb, { headers: { 'content-type': 'application/json', 'content-encoding': 'br' } });

const RUNTIMES = rows([['bun'], ['deno']] as const, 1);

test.each(RUNTIMES)('a client’s document, on %s', async (runtime) => {
  const [bad, good] = [`${vendor.origin}/bomb.json`, `${vendor.origin}/good.json`];
  vendor.documents.set('/bomb.json', explode);
  vendor.documents.set('/good.json', () => Response.json({ client_id: good, redirect_uris: ['https://a.example/cb'] }));
  const certificates = { NODE_EXTRA_CA_CERTS: vendor.certFile, DENO_CERT: vendor.certFile };
  await using server = await startServer({ runtime, env: { OAUTH_CLIENTS: `${bad} ${good}`, ...certificates } });
  const statusOf = async (id: string) => {
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: id,
      redirect_uri: 'https://a.example/cb',
      code_challenge: 'a'.repeat(43),
      code_challenge_method: 'S256',
    });
    return (await fetch(`${server.url}/authorize?${query}`)).status;
  };
  const before = residentMbOf(server.pid);
  expect([await statusOf(bad), await statusOf(good)]).toEqual([400, 200]);
  expect(peakResidentMbOf(server.pid) - before).toBeLessThan(GROWTH_MB_MAX);
});

test.each(RUNTIMES)('a key set and an issuer’s metadata, on %s', async (runtime) => {
  for (const path of [JWKS_PATH, METADATA]) {
    await using issuer = await createIssuer();
    issuer.overrides.set(path, explode);
    await using server = await startServer({ runtime, env: { JWT_ISSUER: issuer.url } });
    const before = residentMbOf(server.pid);
    const token = await issuer.token({ sub: 'alice', aud: server.url, exp: Date.now() / 1000 + 3600 });
    const call = () => callOver(server.url, 'list_api_keys', {}, { authorization: `Bearer ${token}` });
    expect([path, (await call()).body.code]).toEqual([path, 'auth_unavailable']);
    issuer.overrides.delete(path);
    await waitFor(async () => (await call()).status === 200);
    expect(peakResidentMbOf(server.pid) - before).toBeLessThan(GROWTH_MB_MAX);
  }
});
