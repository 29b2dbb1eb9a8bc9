// A vendor's server over HTTPS that publishes the documents of its clients, with a certificate made for the test.

import { makeCertificate } from './certificate.ts';

export interface DocumentServer extends AsyncDisposable {
  /** Its origin: https://localhost with a port. */
  readonly origin: string;
  /** PEM file to be trusted. */
  readonly certFile: string;
  /** What it responds with, by path. */
  readonly documents: Map<string, (request: Request) => Response | Promise<Response>>;
  /** How often it was asked for a path. */
  hits(path: string): number;
  stop(): Promise<void>;
}

export function serveDocuments(): DocumentServer {
  const { certFile, keyFile } = makeCertificate(undefined, false);
  const documents: DocumentServer['documents'] = new Map();
  const counts = new Map<string, number>();
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 30,
    tls: { cert: Bun.file(certFile), key: Bun.file(keyFile) },
    fetch(request) {
      const { pathname } = new URL(request.url);
      counts.set(pathname, (counts.get(pathname) ?? 0) + 1);
      return documents.get(pathname)?.(request) ?? new Response('nothing here', { status: 404 });
    },
  });
  const stop = () => server.stop(true);
  return {
    origin: `https://localhost:${server.port}`,
    certFile,
    documents,
    hits: (path) => counts.get(path) ?? 0,
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
