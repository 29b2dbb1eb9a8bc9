// A vendor's server over HTTPS that publishes the documents of its clients, with a certificate made for the test.

import { makeCertificate } from './certificate.ts';

export type DocumentServer = ReturnType<typeof serveDocuments>;

export function serveDocuments() {
  const { certFile, keyFile } = makeCertificate(undefined, false);
  const documents = new Map<string, (request: Request) => Response | Promise<Response>>();
  const counts = new Map<string, number>();
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0, // a test may hold a response up for as long as its machine takes
    tls: { cert: Bun.file(certFile), key: Bun.file(keyFile) },
    fetch(request) {
      const { pathname } = new URL(request.url);
      counts.set(pathname, (counts.get(pathname) ?? 0) + 1);
      return documents.get(pathname)?.(request) ?? new Response('nothing here', { status: 404 });
    },
  });
  const stop = () => server.stop(true);
  return {
    /** https://localhost with a port. */
    origin: `https://localhost:${server.port}`,
    /** PEM file to be trusted. */
    certFile,
    /** What it responds with, by path. */
    documents,
    /** How often it was asked for a path. */
    hits: (path: string) => counts.get(path) ?? 0,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Lets this process fetch from any server with a certificate of its own; returns what takes that back. */
export function trustAll(): () => void {
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  return () => {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  };
}
