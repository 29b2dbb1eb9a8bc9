// What API keys may begin with: `sk`, or a prefix of one's own, by which scanners know whose key they have found.

export const KEY_PREFIX_PATTERN = '[a-z0-9]{2,12}';
