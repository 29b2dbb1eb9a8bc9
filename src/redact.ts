// Taking secrets out of text that has to be repeated: log lines, and what MCP wants back in an error.

/**
 * A JWT, or the first two parts of one. What is no token, because nothing with a dot follows, is matched as well and put
 * back: otherwise a text of a thousand `eyJ` would be searched for its dot a thousand times, and a body has a million.
 */
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]+\.?[\w-]*)?/g;
const KEY = /sk_(?:live|test)_[0-9A-Za-z]{6,}/g;
const HASH = /\b[0-9a-f]{64}\b/g;
const REDACTED = '[redacted]';

/** Without keys and tokens. */
export const redactKeys = (text: string): string =>
  text.replace(TOKEN, (found, rest?: string) => (rest === undefined ? found : REDACTED)).replace(KEY, REDACTED);

/** Without hashes of keys. */
export const redactHashes = (text: string): string => text.replace(HASH, REDACTED);

/** Without anything that looks like a secret. */
export const redact = (text: string): string => redactHashes(redactKeys(text));
