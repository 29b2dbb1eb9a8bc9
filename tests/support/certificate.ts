// A self-signed certificate for 127.0.0.1 and localhost (RFC 5280), made on the spot: no tool needed, nothing
// committed.

import { generateKeyPairSync, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { diskFolder } from './folder.ts';

export type Certificate = ReturnType<typeof makeCertificate>;

const SEQUENCE = 0x30;
const SET = 0x31;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OID = 0x06;
const UTF8 = 0x0c;
const GENERALIZED_TIME = 0x18;
const TRUE = Buffer.from([0x01, 0x01, 0xff]);

function der(tag: number, ...parts: (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const oid = (...bytes: number[]) => der(OID, Buffer.from(bytes));
const ECDSA_SHA256 = der(SEQUENCE, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const COMMON_NAME = oid(0x55, 0x04, 0x03);
const ALT_NAMES = oid(0x55, 0x1d, 0x11);
const BASIC_CONSTRAINTS = oid(0x55, 0x1d, 0x13);

/**
 * Two PEM files, and the certificate itself, to be trusted by the client. `end`: the last second in which it is valid.
 * `isAuthority`: what Deno takes for no server's certificate.
 */
export function makeCertificate(end = new Date('2099-12-31T23:59:59Z'), isAuthority = true) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8, 'mcp-key-server test'))));
  const altNames = der(SEQUENCE, der(0x87, Buffer.from([127, 0, 0, 1])), der(0x82, 'localhost'));
  const extensions = der(
    SEQUENCE,
    der(SEQUENCE, ALT_NAMES, der(OCTET_STRING, altNames)),
    der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, der(OCTET_STRING, der(SEQUENCE, isAuthority ? TRUE : Buffer.alloc(0)))),
  );
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, Buffer.from([2]))), // version 3
    der(INTEGER, Buffer.from([1])),
    ECDSA_SHA256,
    name,
    der(
      SEQUENCE,
      der(GENERALIZED_TIME, '20200101000000Z'),
      der(GENERALIZED_TIME, `${end.toISOString().replace(/\.\d+|\D/g, '')}Z`),
    ),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  );
  const signature = der(BIT_STRING, Buffer.from([0]), sign('sha256', body, privateKey));
  const base64 = der(SEQUENCE, body, ECDSA_SHA256, signature).toString('base64');
  const cert = `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
  const folder = diskFolder();
  const certFile = join(folder, 'cert.pem');
  const keyFile = join(folder, 'key.pem');
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  return { certFile, keyFile, cert };
}
