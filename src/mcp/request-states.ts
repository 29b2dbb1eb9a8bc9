// Signs the state that a client carries between two rounds of a call (requestState), and reads it. It is signed, not
// encrypted: it contains the client's own responses.

import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { createSignedText, type Signing } from '../ground/signed-text.ts';
import type { JsonObject } from '../ground/text.ts';

/** How long a person may take to respond. */
const STATE_TTL_MS = 10 * 60 * 1000;

export type RequestStates = ReturnType<typeof createRequestStates>;

interface Payload {
  readonly expiresAtMs: number;
  readonly responses: JsonObject;
}

const INVALID_STATE = err({ code: 'invalid_state' } as const);

export function createRequestStates(signing: Signing, clock: Clock) {
  const signedText = createSignedText(signing, 'MCP requestState');
  return {
    /** Signs responses into a state. `subject` identifies the call; the state opens for no other. */
    seal(subject: string, responses: JsonObject): Promise<string> {
      const content: Payload = { expiresAtMs: clock.nowMs() + STATE_TTL_MS, responses };
      return signedText.sign(JSON.stringify(content), subject);
    },
    async open(subject: string, state: string): Promise<Result<JsonObject, Problem>> {
      const text = await signedText.read(state, subject);
      if (text === null) return INVALID_STATE;
      const { expiresAtMs, responses } = JSON.parse(text) as Payload; // signed, so it has the shape that `seal` wrote
      return clock.nowMs() < expiresAtMs ? ok(responses) : INVALID_STATE;
    },
  };
}
