// From the socket to the handler, user tokens, and what the log shows.

import type { Mutations } from './list.ts';

export const WEB: readonly Mutations[] = [
  {
    file: 'src/web/body.ts',
    tests: ['./tests/web/body.test.ts'],
    changes: [
      [
        'body: one byte over the most',
        'if (bytes > BODY_BYTES_MAX) return err',
        'if (bytes > BODY_BYTES_MAX + 1) return err',
      ],
      [
        'body: a length over the most is read',
        "if (length > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });",
        '',
      ],
    ],
  },
  {
    file: 'src/web/router.ts',
    tests: ['./tests/web/host-origin.test.ts'],
    changes: [
      ['host: any name is answered', 'if (host !== null && !isAllowedHost(host))', "if (host === '')"],
      ['origin: any may call', 'if (url.origin === publicOrigin()) return true;', 'return true;'],
    ],
  },
  {
    file: 'src/web/context.ts',
    tests: ['./tests/api/production.test.ts', './tests/security/forged-headers.test.ts'],
    changes: [
      [
        'https: a forwarded protocol is believed without a proxy',
        "ownTls || (trustProxy > 0 && forwardedProto(headers, trustProxy) === 'https')",
        "ownTls || forwardedProto(headers, Math.max(1, trustProxy)) === 'https'",
      ],
    ],
  },
  {
    file: 'src/web/context.ts',
    tests: ['./tests/calls/api-key.test.ts'],
    changes: [
      [
        'credentials: an empty key is present',
        "typeof key === 'string' && key !== '' ? key : null",
        "typeof key === 'string' ? key : null",
      ],
    ],
  },
  {
    file: 'src/web/forwarded.ts',
    tests: ['./tests/security/secrets.test.ts', './tests/watch/access-log.test.ts'],
    changes: [["request ids: a client's that looks like a key", '&& redactKeys(id) === id', '']],
  },
  {
    file: 'src/users/verifier.ts',
    tests: ['./tests/users', './tests/process/deno.test.ts'],
    changes: [
      ['tokens: a verdict outlives its key', 'cached.keys === verificationKeys.current() &&', ''],
      [
        'tokens: one too long is looked at',
        "if (token.length > TOKEN_CHARS_MAX) return err({ code: 'invalid_token', reason: 'too long' });",
        '',
      ],
    ],
  },
  {
    file: 'src/users/check-token.ts',
    tests: ['./tests/users/user-jwt.test.ts'],
    changes: [['tokens: one without an end is taken', "requiredClaims: ['exp', 'sub']", "requiredClaims: ['sub']"]],
  },
  {
    file: 'src/users/discovery.ts',
    tests: ['./tests/users/jwks.test.ts', './tests/users/discovery.test.ts'],
    changes: [
      [
        'tokens: a key that has left the set verifies',
        '(kept !== undefined && ageOf(kept.atMs) < ttlMs',
        '(kept !== undefined && ageOf(kept.atMs) < ttlMs + 1',
      ],
      [
        'tokens: the issuer is asked again at once after a failure',
        'ageOf(failed.atMs) < pauseMs',
        'ageOf(failed.atMs) < 0',
      ],
      ['issuer: metadata of another is used', 'metadata.issuer !== issuer', 'metadata.issuer === undefined'],
    ],
  },
  {
    file: 'src/users/jwks.ts',
    tests: ['./tests/users/jwks.test.ts'],
    changes: [
      [
        'key set: the cool-down ends a millisecond early',
        'clock.monotonicMs() - soughtAtMs < COOLDOWN_MS',
        'clock.monotonicMs() - soughtAtMs < COOLDOWN_MS - 1',
      ],
    ],
  },
  {
    file: 'src/watch/redact.ts',
    tests: ['./tests/watch/redact.test.ts', './tests/watch/log.test.ts', './tests/security/secrets.test.ts'],
    changes: [
      [
        'redaction: an excerpt is cut before it is redacted',
        'redact(withoutControls(text)).slice(0, EXCERPT_CHARS_MAX)',
        'redact(withoutControls(text).slice(0, EXCERPT_CHARS_MAX))',
      ],
      ['redaction: a token of two parts is shown', '(rest === undefined ? found : REDACTED)', 'found'],
    ],
  },
];
