// What is written, for good, once; and what a replica and a restore may say.

import type { Mutations } from './list.ts';

export const STORE: readonly Mutations[] = [
  {
    file: 'src/store/embedded/database.ts',
    tests: ['./tests/store/embedded'],
    changes: [
      [
        'durability: what is acknowledged waits for no disk',
        "unsynced) ? 'NORMAL' : 'FULL'",
        "unsynced) ? 'NORMAL' : 'NORMAL'",
      ],
      [
        'durability: a creation in the group of a use is as lasting as that',
        '(one.alone || one.durability !== first?.durability)',
        'one.alone',
      ],
      ['group commit: slow statements do not end it', 'if (performance.now() > endMs) break;', ''],
      [
        'group commit: it has no largest size',
        'others === -1 ? GROUP_MAX : Math.min(GROUP_MAX, others)',
        'others === -1 ? waiting.length : others',
      ],
      ['batch: it shares a commit, and its failure', 'waiting.slice(0, 1)', 'waiting.slice(0, GROUP_MAX)'],
    ],
  },
  {
    file: 'src/store/backup/restore.ts',
    tests: ['./tests/commands/restore.test.ts', './tests/commands/keys.test.ts'],
    changes: [
      [
        'restore: who was blocked since the backup is not',
        "'key_counts'];\n/** Only added to: who was blocked since stays blocked, and no event is forgotten. */\nconst MERGED = ['blocked_owners', ",
        "'key_counts', 'blocked_owners'];\nconst MERGED = [",
      ],
      ['restore: processes do not notice', '    NEW_ID,\n', ''],
      ['restore: secrets of the backup replace those in use', '...(isNew ? [TAKE_SECRETS] : [])', '...[TAKE_SECRETS]'],
    ],
  },
  {
    file: 'src/store/backup/compare.ts',
    tests: ['./tests/store/backup.test.ts', './tests/commands/restore.test.ts'],
    changes: [
      [
        'restore: of the second secrets none is compared',
        'json_array(k.key_hash, k.second_hash)',
        'json_array(k.key_hash)',
      ],
      ['restore: an expired key counts as accepted', ' AND (k.expires_at_ms IS NULL OR k.expires_at_ms >= ?2)', ''],
    ],
  },
  {
    file: 'src/store/upkeep.ts',
    tests: ['./tests/store/upkeep.test.ts', './tests/store/counts.test.ts'],
    changes: [
      ['upkeep: the number of the newest event is given again', ' AND seq < (SELECT max(seq) FROM key_events)', ''],
      ['upkeep: a slice is the last one', 'changed >= SLICE_ROWS || repeated', 'repeated'],
      [
        'upkeep: changes are kept, however many',
        ' OR seq <= (SELECT max(seq) FROM changes)',
        ' OR seq <= (SELECT NULL)',
      ],
      ['upkeep: a clock that is ahead removes counts', '/ 1000, unixepoch())', '/ 1000, 1e10)'],
      ['upkeep: far too many changes wait for the hour', 'runs.hasten();', ''],
    ],
  },
  {
    file: 'src/store/replica/replica.ts',
    tests: ['./tests/store/replica/together.test.ts'],
    changes: [
      [
        'replica: what is old replaces what another process has put in',
        "iif(database_id || ' ' || pruned_seq = ?, database_id, NULL)",
        'iif(length(?) > 0, database_id, NULL)',
      ],
    ],
  },
  {
    file: 'src/store/key-reads.ts',
    tests: ['./tests/store/replica/replica.test.ts'],
    changes: [
      ['replica: one that lags is believed', 'read && hasReached(read.position, atLeast) ? read : null', 'read'],
      [
        'replica: one read of 200 comes from it',
        '= atLeast && replica &&',
        '= atLeast && Math.random() < 0.005 && replica &&',
      ],
    ],
  },
  {
    file: 'src/store/key-changes.ts',
    tests: [
      './tests/store/rotation.test.ts',
      './tests/tools/key-limit.test.ts',
      './tests/store/written.test.ts',
      './tests/store/remote/lost-response.slow.test.ts',
    ],
    changes: [
      ['keys: one more than an owner may have', "('user_id')}) < ?", "('user_id')}) <= ?"],
      [
        'keys: a creation that arrives late makes a deleted key again',
        'FROM changes WHERE key_hash =',
        'FROM changes WHERE false AND key_hash =',
      ],
      ['rotation: one that was overtaken replaces the other', 'user_id = ?2 AND rotations = ?3', 'user_id = ?2'],
    ],
  },
  {
    file: 'src/store/key-changes.ts',
    tests: ['./tests/api/revoke.test.ts'],
    changes: [
      ['revocation: the next secret of a rotation ends its key', 'max(k.key_hash = h.value) AS whole', '1 AS whole'],
    ],
  },
];
