// What a verb of `keys` is, and how it ends when it can't be done.

import type { Env } from '../../config/env.ts';
import { redact } from '../../log/redact.ts';

export interface Verb {
  /** Its name, and what follows it. */
  readonly usage: string;
  readonly summary: string;
  /** Throws a CommandError when it can't be done. */
  run(args: readonly string[], env: Env): Promise<void>;
}

/** Ends the command: a line for the person, without secrets. */
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
