// What a careless change could do to a decision that keys, people or data depend on: one line each.

export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** Those that should notice, as `bun test` takes them. */
  readonly tests: readonly string[];
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'scopes: a prefix of a scope opens it',
    file: 'src/calls/scopes.ts',
    from: 'if (!held.includes(scope)) return false;',
    to: 'if (!held.some((one) => scope.startsWith(one))) return false;',
    tests: ['./tests/calls/guard.test.ts'],
  },
  {
    name: 'scopes: any one of the required is enough',
    file: 'src/calls/scopes.ts',
    from: 'if (!held.includes(scope)) return false;',
    to: 'if (held.includes(scope)) return true;',
    tests: ['./tests/calls/guard.test.ts'],
  },
  {
    name: 'redaction: an excerpt is cut before it is redacted',
    file: 'src/log/redact.ts',
    from: 'redact(withoutControls(text)).slice(0, EXCERPT_CHARS_MAX)',
    to: 'redact(withoutControls(text).slice(0, EXCERPT_CHARS_MAX))',
    tests: ['./tests/log'],
  },
  {
    name: 'cache: what is deleted keeps its bytes',
    file: 'src/lib/lru-cache.ts',
    from: 'if (value !== undefined && young.delete(key)) youngBytes -= bytesOf(value);',
    to: 'if (value !== undefined) young.delete(key);',
    tests: ['./tests/lib/lru-cache.test.ts'],
  },
  {
    name: 'key set: the cool-down ends a millisecond early',
    file: 'src/jwt/jwks.ts',
    from: 'ageOf(soughtAtMs) < COOLDOWN_MS',
    to: 'ageOf(soughtAtMs) < COOLDOWN_MS - 1',
    tests: ['./tests/jwt/jwks.test.ts'],
  },
  {
    name: 'restore: who was blocked since the backup is not',
    file: 'src/database/backup/restore.ts',
    from: "const REPLACED = ['api_keys', 'key_uses', 'key_counts'];",
    to: "const REPLACED = ['api_keys', 'key_uses', 'key_counts', 'blocked_owners'];",
    tests: ['./tests/commands/restore.test.ts'],
  },
];
