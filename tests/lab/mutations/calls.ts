// Who may call: guards, scopes, blocks, and the last check before a success leaves.

import type { Mutations } from './list.ts';

export const CALLS: readonly Mutations[] = [
  {
    file: 'src/calls/guards.ts',
    tests: ['./tests/calls/guard.test.ts'],
    changes: [
      [
        'scopes: one that begins with a held one is held',
        'required.every((scope) => held.includes(scope))',
        'required.every((scope) => held.some((one) => scope.startsWith(one)))',
      ],
      [
        'scopes: any one of the required is enough',
        'required.every((scope) => held.includes(scope))',
        'required.some((scope) => held.includes(scope))',
      ],
      [
        'scopes: admin holds all',
        'required.every((scope) => held.includes(scope))',
        "required.every((scope) => held.includes(scope) || held.includes('admin'))",
      ],
    ],
  },
  {
    file: 'src/calls/guards.ts',
    tests: ['./tests/process/tools-folder.test.ts'],
    changes: [['scopes: a guard that names none lets every key pass', 'if (required.length === 0)', 'if (false)']],
  },
  {
    file: 'src/calls/schema.ts',
    tests: ['./tests/calls/tool.test.ts', './tests/process/tools-folder.test.ts', './tests/mcp/clients.test.ts'],
    changes: [
      ['schemas: an async one lets any input pass', 'part.async === true', 'false'],
      ['schemas: NaN is sent as null', 'return Number.isFinite(value) ? undefined : value;', 'return undefined;'],
      ['schemas: a pattern that clients cannot compile is sent', '(errors || !isUnicodePattern(source))', 'errors'],
    ],
  },
  {
    file: 'src/calls/schema.ts',
    tests: ['./tests/calls/tool.test.ts'],
    changes: [
      ['issues: a key comes back as the name of a field', 'path: redactKeys(path)', 'path'],
      ["issues: a key comes back in a tool's words", 'message: redactKeys(message)', 'message'],
    ],
  },
  {
    file: 'src/calls/guard.ts',
    tests: ['./tests/calls/guard.test.ts'],
    changes: [
      ['guards: a refusal is passed over', 'if (!result.ok) return result;', ''],
      [
        'guards: a refusal that comes later is passed over',
        'return result.ok ? runFrom(guards, at + 1, addTo(context, result.value)) : result;',
        'return runFrom(guards, at + 1, result.ok ? addTo(context, result.value) : context);',
      ],
    ],
  },
  {
    file: 'src/calls/api-key.ts',
    tests: ['./tests/calls/api-key.test.ts'],
    changes: [
      [
        'credentials: a bearer token goes before X-API-Key',
        'xApiKey ?? bearer ?? metaApiKey',
        'bearer ?? xApiKey ?? metaApiKey',
      ],
    ],
  },
  {
    file: 'src/calls/run.ts',
    tests: ['./tests/keys/sleep.test.ts', './tests/api/late.test.ts'],
    changes: [
      [
        'recheck: what a tool returned leaves whose proof is too old',
        'recheck.isFresh(call) ? result : proved(result, call)',
        'result',
      ],
    ],
  },
  {
    file: 'src/calls/run.ts',
    tests: ['./tests/calls/large-output.test.ts'],
    changes: [['outputs: one takes twice the memory that it may', 'if (bytes > bytesMax)', 'if (chars > bytesMax)']],
  },
  {
    file: 'src/calls/user-jwt.ts',
    tests: ['./tests/keys/blocks.test.ts'],
    changes: [
      ['blocks: one that was made meanwhile is forgotten', 'if (changes === changesBefore) known', 'known'],
      [
        'blocks: a blocked owner passes',
        "blocked ? err({ code: 'user_blocked' } as const) : ok(polledAtMs)",
        'ok(polledAtMs)',
      ],
    ],
  },
  {
    file: 'src/calls/user-jwt.ts',
    tests: ['./tests/tools/admin.test.ts'],
    changes: [['admins: everybody is one', 'if (call.auth.isAdmin) return PASS;', 'return PASS;']],
  },
  {
    file: 'src/ground/limits/rates.ts',
    tests: ['./tests/calls/rate-limit.test.ts', './tests/ground/limits/windows.test.ts'],
    changes: [
      ['windows: one more than the limit', 'bucket.used < requests', 'bucket.used <= requests'],
      ['windows: one ends a millisecond late', 'nowMs >= window.endsAtMs ||', 'nowMs > window.endsAtMs ||'],
    ],
  },
  {
    file: 'src/ground/limits/rates.ts',
    tests: ['./tests/ground/limits/token-bucket.test.ts'],
    changes: [
      [
        'token buckets: what was not taken is saved up without end',
        'known.tokens = Math.min(burst, known.tokens + ((nowMs - known.filledAtMs) / 1000) * perS);',
        'known.tokens += ((nowMs - known.filledAtMs) / 1000) * perS;',
      ],
    ],
  },
  {
    file: 'src/ground/limits/share.ts',
    tests: ['./tests/ground/limits/share.test.ts'],
    changes: [['shares: one owner may have all', 'own > bounds.each || taken', 'taken']],
  },
  {
    file: 'src/ground/cache.ts',
    tests: ['./tests/ground/lru-cache.test.ts'],
    changes: [
      [
        'cache: what is deleted keeps its bytes',
        'if (value !== undefined && young.delete(key)) youngBytes -= bytesOf(value);',
        'if (value !== undefined) young.delete(key);',
      ],
      [
        'cache: a new generation begins with the bytes of the last',
        'young = new Map();\n      youngBytes = 0;\n    }',
        'young = new Map();\n    }',
      ],
    ],
  },
];
