// Scopes: scope tokens (RFC 6749 §3.3), and lists of them as claims and settings have them, with spaces between.

/** Printable ASCII except space, quote and backslash; the length is a limit of ours. As text, for JSON Schema. */
export const SCOPE_PATTERN = '^[\\x21\\x23-\\x5B\\x5D-\\x7E]{1,100}$';

const SCOPE = new RegExp(SCOPE_PATTERN);

export const isScope = (text: string): boolean => SCOPE.test(text);

/** The parts of a list with spaces between. They need not be scopes. */
export const splitScopes = (list: string): readonly string[] => list.split(' ').filter((part) => part !== '');

/** As a list with spaces between. What is not a scope is left out: with a space in it, it would read as two. */
export const joinScopes = (scopes: readonly string[]): string => scopes.filter(isScope).join(' ');
