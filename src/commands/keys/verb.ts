// What a verb of `keys` is, and the errors that end it.

import type { Env } from '../../config/env.ts';
import { redact } from '../../log/redact.ts';

export interface Verb {
  readonly usage: string;
  readonly summary: string;
  /** Throws a CommandError when it can't be done. */
  run(args: readonly string[], env: Env): Promise<void>;
}

/** Ends the command with a line for the person, redacted. */
export class CommandError extends Error {
  override name = 'CommandError';
  constructor(
    message: string,
    readonly exitCode: 1 | 2 = 1,
  ) {
    super(redact(message));
  }
}

/** Ends the command without a message: the reader of its output (`| head`) has enough. */
export class ReaderLeft extends Error {
  override name = 'ReaderLeft';
}

/** Ends the command with the usage of its verb below the message. */
export class UsageError extends CommandError {
  constructor(message: string) {
    super(message, 2);
  }
}
