// Progress of a call (basic/utilities/progress): which of it is sent, and how.

import type { JsonObject } from '../ground/text.ts';
import { notificationText } from './message.ts';

export type ProgressToken = string | number;

/** Each notification repeats the token, also one that is dropped. Clients send numbers and short names. */
const TOKEN_CHARS_MAX = 1024;

/** A longer token is ignored: progress is optional. */
export function progressTokenOf(meta: JsonObject | undefined): ProgressToken | undefined {
  const token = meta?.progressToken;
  if (typeof token === 'string') return token.length <= TOKEN_CHARS_MAX ? token : undefined;
  return Number.isSafeInteger(token) ? (token as number) : undefined;
}

/** Drops progress that does not increase, which it must, and any after `stop`. */
export function progressReporter(token: ProgressToken, send: (message: string) => void) {
  let last = Number.NEGATIVE_INFINITY;
  return {
    report(progress: number, total?: number, message?: string): void {
      if (!Number.isFinite(progress) || progress <= last) return;
      last = progress;
      send(notificationText('notifications/progress', { progressToken: token, progress, total, message }));
    },
    stop(): void {
      last = Number.POSITIVE_INFINITY;
    },
  };
}
