// What stops a start, what a stop waits for, and what commands ask.

import type { Mutations } from './list.ts';

export const START: readonly Mutations[] = [
  {
    file: 'src/config/config.ts',
    tests: ['./tests/config/config.test.ts'],
    changes: [
      ['start: a slip of production is no production', 'name !== PRODUCTION && meansProduction(name)', 'false'],
    ],
  },
  {
    file: 'src/calls/operation.ts',
    tests: ['./tests/process/tools-folder.test.ts'],
    changes: [
      [
        'start: a scope that is undefined stops nothing',
        "typeof scope !== 'string' || !isScope(scope)",
        "typeof scope === 'string' && !isScope(scope)",
      ],
    ],
  },
  {
    file: 'src/tools/registry.ts',
    tests: ['./tests/process/tools-folder.test.ts'],
    changes: [
      ["start: a tool takes a name of the server's", 'RESERVED_NAMES.includes(name)', 'false'],
      ['start: a tool needs a scope that no key may have', 'if (!missing) return;', 'return;'],
    ],
  },
  {
    file: 'src/start/stop.ts',
    tests: ['./tests/process/stop.test.ts'],
    changes: [
      ['stop: it waits for no response', 'await Promise.race([stopped, handled, sleep(DRAIN_MS_MAX)]);', ''],
      ['stop: a Ctrl-C that arrives twice ends it', ' - stoppingSinceMs >= SECOND_SIGNAL_AFTER_MS', ' >= 0'],
    ],
  },
  {
    file: 'src/commands/io.ts',
    tests: ['./tests/commands/keys.test.ts'],
    changes: [['commands: without a terminal nobody is asked', 'if (yes) return;', 'if (yes || !stdin.isTTY) return;']],
  },
  {
    file: 'src/commands/io.ts',
    tests: ['./tests/commands/keys-mistakes.test.ts'],
    changes: [
      ['commands: a failure shows a key', 'super(redact(message));', 'super(message);'],
      ['commands: names move the cursor', 'withoutControls(text).replace(', 'text.replace('],
    ],
  },
  {
    file: 'src/ground/private-files.ts',
    tests: ['./tests/process/start.test.ts'],
    changes: [['start: anybody lists the folder of the database', 'mode: 0o700', 'mode: 0o755']],
  },
];
