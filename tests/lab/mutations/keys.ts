// Which key is good, for how long, and when memory may say so.

import type { Mutations } from './list.ts';

export const KEYS: readonly Mutations[] = [
  {
    file: 'src/keys/record.ts',
    tests: ['./tests/keys/state-table.test.ts', './tests/tools/rotate-api-key.test.ts', './tests/keys/blocks.test.ts'],
    changes: [
      ['record: a key is good a millisecond longer', 'endsAtMs < nowMs;', 'endsAtMs < nowMs - 1;'],
      [
        'record: an ended secret of a rotation is good',
        "if (hasEnded(key.secretEndsAtMs, nowMs)) return 'rotated';",
        '',
      ],
      ['record: keys of a blocked owner are good', "if (key.blocked) return 'blocked';", ''],
    ],
  },
  {
    file: 'src/keys/verify.ts',
    tests: ['./tests/keys/pasting.test.ts', './tests/keys/last-used.test.ts', './tests/keys/audience.test.ts'],
    changes: [
      [
        'verify: what is looked at is a use',
        "if (purpose === 'use' || purpose === 'pasting') usage.note",
        "if (purpose !== 'confirm') usage.note",
      ],
      [
        'verify: a key for another server is taken',
        'const isMeant = audience.admits(resource, caller.resources);',
        'const isMeant = true;',
      ],
      [
        'verify: pasting a new secret completes its rotation',
        "(purpose === 'use' || purpose === 'confirm');",
        "purpose !== 'look';",
      ],
    ],
  },
  {
    file: 'src/keys/record.ts',
    tests: ['./tests/keys/audience.test.ts'],
    changes: [['audience: good for one of the servers is good for all', '.every((resource)', '.some((resource)']],
  },
  {
    file: 'src/keys/feed.ts',
    tests: ['./tests/keys/feed.test.ts'],
    changes: [
      [
        'feed: memory is trusted beyond the bound',
        'nowMs - atMs <= lagMaxMs - RESPONSE_MS',
        'nowMs - atMs <= lagMaxMs * 2',
      ],
      ['feed: memory is trusted to the very bound', 'lagMaxMs - RESPONSE_MS;', 'lagMaxMs;'],
      ['feed: a change made while a poll was under way is missed', 'await polling.underWay?.catch(() => {});', ''],
      ['feed: a poll counts from its end', 'polledAtMs = startedAtMs;', 'polledAtMs = clock.monotonicMs();'],
      [
        'feed: memory is trusted after a change that was not read',
        'polledAtMs = Number.NEGATIVE_INFINITY;\n        outageIn',
        'outageIn',
      ],
    ],
  },
  {
    file: 'src/keys/key-cache.ts',
    tests: ['./tests/keys/verify.test.ts', './tests/keys/blocks.test.ts', './tests/keys/put-back.test.ts'],
    changes: [
      [
        'cache: a record that is read again stays as it was',
        'JSON.stringify(record) === JSON.stringify(before)',
        'before !== null',
      ],
      ['cache: a record that is read again is not believed', 'before.believedUntilMs = believedUntilMs;', ''],
      [
        'cache: a record older than the feed is kept',
        'const keeps = hasReached(position, feed.position);',
        'const keeps = true;',
      ],
      ['cache: a read from before a change is joined after it', 'reads.forget(keyHash);', ''],
      ['cache: the keys of a blocked owner stay', 'usable.deleteWhere(({ userId }) => owners.has(userId));', ''],
    ],
  },
  {
    file: 'src/keys/grants.ts',
    tests: ['./tests/keys/grants.test.ts', './tests/uses/limits.test.ts'],
    changes: [
      [
        'grants: one scope that may be granted grants all',
        '!scopes.every((scope) => grantable.includes(scope))',
        '!scopes.some((scope) => grantable.includes(scope))',
      ],
      ['grants: a longer life than the longest', 'expiresInDays > daysMax', 'expiresInDays > daysMax + 1'],
      [
        "grants: a longer period than the quota's",
        'quota.period !== mostQuota.period || quota.requests > mostQuota.requests',
        'quota.requests > mostQuota.requests',
      ],
      [
        'grants: a faster limit than the fastest',
        'rateLimit.requests > most.requests || isFaster',
        'rateLimit.requests > most.requests',
      ],
    ],
  },
  {
    file: 'src/keys/changes.ts',
    tests: ['./tests/keys/misses.test.ts', './tests/api/revoke.test.ts'],
    changes: [
      ['revocation: one of a secret that has ended is logged', ' && !hasEnded(record.secretEndsAtMs, nowMs)', ''],
      ['budgets: whoever changes nothing makes writes without end', '?.active) return misses', ') return misses'],
    ],
  },
  {
    file: 'src/keys/minting.ts',
    tests: ['./tests/keys/creation-rate.test.ts', './tests/keys/misses.test.ts', './tests/keys/grants.test.ts'],
    changes: [
      ['budgets: rotations are without end', 'if (!taken.ok) return taken;', ''],
      [
        'budgets: rotations of nothing are without end',
        'return miss.ok ? err(problem) : miss;',
        'return err(problem);',
      ],
      ['grants: a rotation lets a key live longer', '{ scopes: [], expiresInDays })', '{ scopes: [] })'],
    ],
  },
  {
    file: 'src/keys/unknown-keys.ts',
    tests: ['./tests/keys/unknown-keys.test.ts'],
    changes: [['budgets: good keys take that of unknown ones', 'all.slice(0, paid).filter(isGood).length', '0']],
  },
];
