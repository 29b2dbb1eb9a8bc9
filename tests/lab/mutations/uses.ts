// Limits, quotas and counts of uses, over the ends of days and with clocks that are set.

import type { Mutations } from './list.ts';

export const USES: readonly Mutations[] = [
  {
    file: 'src/uses/key-usage.ts',
    tests: ['./tests/uses/limits.test.ts', './tests/uses/counting-clock.test.ts', './tests/uses/shared-limits.test.ts'],
    changes: [
      ['limits: one more than the limit', '>= limit.requests', '> limit.requests'],
      ['quotas: one more than the quota', '>= quota.requests', '> quota.requests'],
      ['uses: those of the day before yesterday are lost', 'this.#late = [...this.#late, day]', 'this.#late = [day]'],
      ['uses: a total of another day counts', 'usage !== null && contains(usage.window, nowMs)', 'usage !== null'],
      ['uses: what is told counts beside what was sent', 'Math.max(usage.total, total)', 'usage.total + total'],
      ['uses: those of a day that ends while they are sent are not shown', ' || this.#isSending', ''],
    ],
  },
  {
    file: 'src/uses/shown-uses.ts',
    tests: ['./tests/uses/last-used.test.ts', './tests/uses/counting-clock.test.ts', './tests/uses/limits.test.ts'],
    changes: [
      ['shown uses: the oldest of 30 days is left out', 'today - DAYS_SHOWN + 1', 'today - DAYS_SHOWN + 2'],
      [
        'shown uses: those of days that are over wait for their exchange',
        'key?.days ?? []',
        'key === undefined ? [] : [key.day]',
      ],
    ],
  },
  {
    file: 'src/ground/limits/rates.ts',
    tests: ['./tests/uses/counting-clock.test.ts', './tests/ground/limits/windows.test.ts'],
    changes: [
      [
        'windows: a clock that is set back opens the one before',
        '(nowMs < window.startsAtMs && clock.monotonicMs() >= window.overAtMs)',
        'nowMs < window.startsAtMs',
      ],
      [
        'windows: after a clock that was set back one never ends',
        ' || (nowMs < window.startsAtMs && clock.monotonicMs() >= window.overAtMs)',
        '',
      ],
    ],
  },
  {
    file: 'src/uses/exchange.ts',
    tests: ['./tests/uses/shared-limits.test.ts', './tests/store/counts.test.ts'],
    changes: [['exchange: one whose outcome is unknown is not sent again', 'if (sent !== null) await send(sent);', '']],
  },
  {
    file: 'src/store/counts.ts',
    tests: ['./tests/uses/shared-limits.test.ts', './tests/store/counts.test.ts', './tests/store/last-used.test.ts'],
    changes: [
      [
        'counts: an exchange that is sent again counts twice',
        'instance = ?2 AND number >= ?3',
        'instance = ?2 AND number > ?3',
      ],
      ['counts: an older last use replaces a later one', ' WHERE last_used_at_ms < excluded.last_used_at_ms', ''],
    ],
  },
  {
    file: 'src/store/upkeep.ts',
    tests: ['./tests/store/counts.test.ts', './tests/store/upkeep.test.ts'],
    changes: [['counts: a clock that is ahead removes what is still counted', 'CAST(min(', 'CAST(max(']],
  },
];
