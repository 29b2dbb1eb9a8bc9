// Reads the certificate and key for the server's own TLS, with errors that name the variable at fault.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { MS_PER_DAY } from '../ground/runtime.ts';
import { expected } from '../ground/text.ts';
import type { Config } from './config.ts';

/** How long before its end a certificate is warned about: early enough to replace it. */
const REPLACED_WITHIN_MS = 14 * MS_PER_DAY;

// The end is missing in a file that is being written.
const CERTIFICATES = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----.*?(?:-----END [^\n]*|$)/gs;
const PRIVATE_KEYS = /-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [^\n]*|$)/gs;

const certificateOf = (pem: string) => new X509Certificate(pem);

export type Tls = ReturnType<typeof readTls>;

/** Reads the certificate, with its chain, and its private key. Throws an Error that says which file can't be used, and why. */
export function readTls({ certFile, keyFile }: NonNullable<Config['tls']>) {
  const cert = readPem('TLS_CERT_FILE', 'a certificate', certFile, CERTIFICATES, certificateOf);
  const key = readPem('TLS_KEY_FILE', 'a private key', keyFile, PRIVATE_KEYS, createPrivateKey);
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    throw new Error(expected('TLS_KEY_FILE', 'the key of the certificate in TLS_CERT_FILE', keyFile));
  }
  if (!cert.blocks.every(isCertificate)) {
    throw new Error(expected('TLS_CERT_FILE', 'the certificates behind the first to be whole', certFile));
  }
  const endsAtMs = cert.parsed.validToDate.getTime();
  return {
    cert: cert.blocks.join('\n'),
    key: key.blocks.join('\n'),
    /** When the certificate ends, in milliseconds since 1970. Its chain is not inspected. */
    endsAtMs,
    endsSoonFromMs: endsAtMs - REPLACED_WITHIN_MS,
  };
}

function isCertificate(pem: string): boolean {
  try {
    certificateOf(pem);
    return true;
  } catch {
    return false;
  }
}

/** Reads the blocks of one kind, and parses the first. Others may stand between: certificate and key may share a file. */
function readPem<T>(variable: string, holding: string, file: string, kind: RegExp, parse: (pem: string) => T) {
  try {
    const blocks = readFileSync(file, 'utf8').match(kind) ?? [''];
    return { blocks, parsed: parse(blocks[0]) };
  } catch (error) {
    const { code } = error as { code?: unknown };
    const reason = typeof code === 'string' && /^E[A-Z]+$/.test(code) ? code : 'it holds none that can be used';
    throw new Error(`${expected(variable, `a readable PEM file with ${holding}`, file)} (${reason})`);
  }
}
