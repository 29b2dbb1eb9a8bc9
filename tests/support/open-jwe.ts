// Opens a compact JWE (ECDH-ES, A256GCM) as its recipient does, in three ways that share no code: jose, node:crypto by
// hand, and Python.

import { createDecipheriv, createHash, createPrivateKey, createPublicKey, diffieHellman } from 'node:crypto';
import { compactDecrypt, importJWK, type JWK } from 'jose';

export async function openWithJose(jwe: string, privateJwk: JWK): Promise<string> {
  const { plaintext, protectedHeader } = await compactDecrypt(jwe, await importJWK(privateJwk, 'ECDH-ES'));
  if (protectedHeader.alg !== 'ECDH-ES' || protectedHeader.enc !== 'A256GCM') throw new Error('another algorithm');
  return new TextDecoder().decode(plaintext);
}

/** RFC 7516 §5.2 with OpenSSL's primitives: ECDH, Concat KDF (RFC 7518 §4.6.2) with one round, AES-256-GCM. */
export function openByHand(jwe: string, privateJwk: JWK): string {
  const [header = '', encryptedKey, iv = '', ciphertext = '', tag = ''] = jwe.split('.');
  if (encryptedKey !== '') throw new Error('direct key agreement has no encrypted key');
  const bytes = (part: string) => Buffer.from(part, 'base64url');
  const { epk, enc } = JSON.parse(bytes(header).toString());
  const secret = diffieHellman({
    privateKey: createPrivateKey({ key: privateJwk, format: 'jwk' }),
    publicKey: createPublicKey({ key: epk, format: 'jwk' }),
  });
  const number = (value: number) => Buffer.from([0, 0, value >> 8, value & 255]);
  const otherInfo = [number(enc.length), Buffer.from(enc), number(0), number(0), number(256)];
  const key = createHash('sha256')
    .update(Buffer.concat([number(1), secret, ...otherInfo]))
    .digest();
  const decipher = createDecipheriv('aes-256-gcm', key, bytes(iv)).setAAD(Buffer.from(header)).setAuthTag(bytes(tag));
  return Buffer.concat([decipher.update(bytes(ciphertext)), decipher.final()]).toString();
}

// Takes the JWE and the private JWK as two lines. Uses Debian's python3-cryptography.
const PYTHON = `
import base64, json, sys
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash

def data(part): return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
def number(part): return int.from_bytes(data(part), "big")
def point(jwk): return ec.EllipticCurvePublicNumbers(number(jwk["x"]), number(jwk["y"]), ec.SECP256R1())
def counted(text): return len(text).to_bytes(4, "big") + text

jwe, own = sys.stdin.read().splitlines()
head, _, iv, text, tag = jwe.split(".")
header, own = json.loads(data(head)), json.loads(own)
if own["kty"] == "EC":
    private = ec.EllipticCurvePrivateNumbers(number(own["d"]), point(own)).private_key()
    secret = private.exchange(ec.ECDH(), point(header["epk"]).public_key())
else:
    private = x25519.X25519PrivateKey.from_private_bytes(data(own["d"]))
    secret = private.exchange(x25519.X25519PublicKey.from_public_bytes(data(header["epk"]["x"])))
info = counted(header["enc"].encode()) + counted(b"") + counted(b"") + (256).to_bytes(4, "big")
key = ConcatKDFHash(algorithm=SHA256(), length=32, otherinfo=info).derive(secret)
print(AESGCM(key).decrypt(data(iv), data(text) + data(tag), head.encode()).decode())
`;

/** An interpreter with the library; undefined where there is none. */
export const PYTHON_WITH_CRYPTOGRAPHY = ['/usr/bin/python3', 'python3'].find(
  (python) => Bun.which(python) !== null && Bun.spawnSync([python, '-c', 'import cryptography']).success,
);

export function openWithPython(jwe: string, privateJwk: JWK): string {
  const stdin = Buffer.from(`${jwe}\n${JSON.stringify(privateJwk)}\n`);
  const { stdout, stderr } = Bun.spawnSync([PYTHON_WITH_CRYPTOGRAPHY ?? 'python3', '-c', PYTHON], { stdin });
  if (stderr.length > 0) throw new Error(stderr.toString());
  return stdout.toString().trim();
}
