// What comes after an edit of a key, whoever made it: this process sees it, the log says it, and the key is shown.

import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields } from './actor.ts';
import type { Feed } from './feed.ts';
import { type OwnKey, ownKeys, type ShownWith } from './listing.ts';
import type { ListedKey } from './record.ts';
import type { Changed } from './store.ts';

/** An edit of a key that was made. */
export interface MadeEdit {
  /** The key as it now is. */
  readonly key: ListedKey;
  /** What the edit changed; null: nothing was different. */
  readonly changed: Changed | null;
}

export interface EditShownWith extends ShownWith {
  /** Its `refresh` lets this process see a change before the response. */
  readonly feed: Feed;
  readonly clock: Clock;
  readonly log: Log;
}

/** Lets this process see an edit, logs it, and returns the key as it is shown. */
export async function showEdit(
  actor: Actor,
  { key, changed }: MadeEdit,
  options: EditShownWith,
): Promise<Result<OwnKey, Problem>> {
  const { feed, clock, log } = options;
  await feed.refresh();
  log.info('API key updated', { ...actorFields(actor), keyId: key.id, ...(changed ?? { changed: false }) });
  const [shown] = await ownKeys([key], options, clock.nowMs());
  return shown === undefined ? err({ code: 'key_not_found' }) : ok(shown);
}
