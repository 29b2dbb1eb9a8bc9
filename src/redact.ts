// Taking secrets out of text that has to be repeated: log lines, and what MCP wants back in an error.

const KEY_OR_TOKEN = /sk_(?:live|test)_[0-9A-Za-z]{6,}|eyJ[\w-]{8,}\.[\w-]+\.?[\w-]*/g;
const HASH = /\b[0-9a-f]{64}\b/g;
const REDACTED = '[redacted]';

/** Without keys and tokens. */
export const redactKeys = (text: string): string => text.replace(KEY_OR_TOKEN, REDACTED);

/** Without hashes of keys. */
export const redactHashes = (text: string): string => text.replace(HASH, REDACTED);

/** Without anything that looks like a secret. */
export const redact = (text: string): string => redactHashes(redactKeys(text));
