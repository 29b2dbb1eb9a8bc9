// requestState: what a client carries from one round of a call to the next (2026-07-28, basic/patterns/mrtr), so that
// the server keeps nothing and any process can take the next round. Signed, not encrypted: it holds the client's own
// responses.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { createSignedText, type SignedTextOptions } from '../lib/signed-text.ts';
import type { JsonObject } from '../lib/text.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';

/** How long a person may take to respond. */
const STATE_TTL_MS = 10 * 60 * 1000;

export interface RequestStates {
  /** `subject` is what the call is about; the state opens for no other. */
  seal(subject: string, responses: JsonObject): Promise<Result<string, Problem>>;
  open(subject: string, state: string): Promise<Result<JsonObject, Problem>>;
}

export interface RequestStateOptions extends Omit<SignedTextOptions<StoreUnavailable>, 'use'> {
  readonly clock: Clock;
}

interface Payload {
  readonly expiresAtMs: number;
  readonly responses: JsonObject;
}

const INVALID_STATE = err({ code: 'invalid_state' } as const);

export function createRequestStates({ clock, ...options }: RequestStateOptions): RequestStates {
  const signedText = createSignedText({ ...options, use: 'MCP requestState' });
  return {
    seal(subject, responses) {
      const content: Payload = { expiresAtMs: clock.nowMs() + STATE_TTL_MS, responses };
      return signedText.sign(JSON.stringify(content), subject);
    },
    async open(subject, state) {
      const text = await signedText.read(state, subject);
      if (!text.ok) return text;
      if (text.value === null) return INVALID_STATE;
      const { expiresAtMs, responses } = JSON.parse(text.value) as Payload; // signed, so it is what was sealed
      return clock.nowMs() < expiresAtMs ? ok(responses) : INVALID_STATE;
    },
  };
}
