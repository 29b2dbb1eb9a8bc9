// API keys as strings, `<prefix>_<live|test>_<64 hex>`: made, recognized and hashed. The plain key is never stored.

import { KEY_PREFIX_PATTERN } from '../ground/key-prefix.ts';
import type { RandomBytes, Sha256 } from '../ground/runtime.ts';

const KEY_RANDOM_BYTES = 32;
const ID_RANDOM_BYTES = 16;

const KEY_SHAPE = new RegExp(`^${KEY_PREFIX_PATTERN}_(?:live|test)_[0-9a-f]{64}$`);
const ID_SHAPE = /^[0-9a-f]{32}$/;

/** `sk_live_…` in production, `sk_test_…` elsewhere, with `sk` or another prefix. */
export const mintKey = (prefix: string, production: boolean, random: RandomBytes): string =>
  `${prefix}_${production ? 'live' : 'test'}_${random(KEY_RANDOM_BYTES).toHex()}`;

/** 32 lowercase hex characters. */
export const mintId = (random: RandomBytes): string => random(ID_RANDOM_BYTES).toHex();

/** Whether a text could be a key. Any prefix passes, so that keys outlive a change of the configured one. */
export const isKeyShaped = (token: string): boolean => KEY_SHAPE.test(token);

/** Whether a text could be a record id, which is then safe to log. */
export const isIdShaped = (id: string): boolean => ID_SHAPE.test(id);

/** SHA-256 as 64 lowercase hex characters. A slow hash, as for passwords, would add nothing to 256 random bits. */
export const hashKey = (sha256: Sha256, key: string): string => sha256(key, 'hex');
