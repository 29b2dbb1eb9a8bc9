// Reads the certificate and key for the server's own TLS, with errors that name the variable at fault.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expected } from '../ground/text.ts';
import type { Config } from './config.ts';

/** PEM texts: the certificate followed by its chain, and its private key. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
  /** When the certificate ends, in milliseconds since 1970. Its chain is not inspected. */
  readonly endsAtMs: number;
}

/** Reads the certificate and its key. Throws an Error that says which file can't be used, and why. */
export function readTls({ certFile, keyFile }: NonNullable<Config['tls']>): Tls {
  const cert = readPem('TLS_CERT_FILE', 'a certificate', certFile, (pem) => new X509Certificate(pem));
  const key = readPem('TLS_KEY_FILE', 'a private key', keyFile, createPrivateKey);
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    throw new Error(expected('TLS_KEY_FILE', 'the key of the certificate in TLS_CERT_FILE', keyFile));
  }
  return { cert: cert.pem, key: key.pem, endsAtMs: cert.parsed.validToDate.getTime() };
}

function readPem<T>(variable: string, holding: string, file: string, parse: (pem: string) => T) {
  try {
    const pem = readFileSync(file, 'utf8');
    return { pem, parsed: parse(pem) };
  } catch (error) {
    const { code } = error as { code?: unknown };
    const reason = typeof code === 'string' && /^E[A-Z]+$/.test(code) ? code : 'it holds none that can be used';
    throw new Error(`${expected(variable, `a readable PEM file with ${holding}`, file)} (${reason})`);
  }
}
