// Whose a session and a question are, and who reads a new key.

import type { Mutations } from './list.ts';

export const MCP: readonly Mutations[] = [
  {
    file: 'src/mcp/sessions.ts',
    tests: ['./tests/mcp/sse.test.ts'],
    changes: [
      [
        'sessions: anybody posts to one',
        'return isCall && hasEnded ? ok(session) : err(NO_SESSION);',
        'return ok(session);',
      ],
      ['sessions: whose credential has ended sends more than calls', 'isCall && hasEnded', 'hasEnded'],
    ],
  },
  {
    file: 'src/mcp/client.ts',
    tests: ['./tests/mcp/request-state.test.ts'],
    changes: [['questions: the state of a call never ends', 'clock.nowMs() < expiresAtMs', 'expiresAtMs > 0']],
  },
  {
    file: 'src/calls/run.ts',
    tests: ['./tests/mcp/request-state.test.ts'],
    changes: [["questions: the state of a call is anybody's", 'identityOf(call), sorted', 'sorted']],
  },
  {
    file: 'src/tools/key-fields.ts',
    tests: ['./tests/mcp/key-reveal.test.ts'],
    changes: [
      ['new keys: a model reads one', "call.audience === 'program'", "call.audience !== 'model_with_widget'"],
      ['new keys: one that a widget shows is in the result', 'warning: IN_WIDGET };', 'warning: IN_WIDGET, key };'],
    ],
  },
];
