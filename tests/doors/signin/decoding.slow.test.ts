// A client's document of a KB or two that decodes to 512 MB: counted as it is decoded, so neither memory nor the next
// document notices. On both runtimes.

import { afterAll, beforeAll, expect, test } from 'bun:test';
import { GROWTH_MB_MAX, makeBomb } from '../../support/bomb.ts';
import { type DocumentServer, serveDocuments } from '../../support/client-documents.ts';
import { rows } from '../../support/everything.ts';
import { peakResidentMbOf, residentMbOf, startServer } from '../../support/server-process.ts';

let explode: () => Response;
let vendor: DocumentServer;
beforeAll(async () => {
  explode = await makeBomb();
  vendor = serveDocuments();
});
afterAll(() => vendor.stop());

test.each(rows([['bun'], ['deno']] as const, 1))('a client’s document, on %s', async (runtime) => {
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
