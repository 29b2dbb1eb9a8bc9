// `keys unblock`: the opposite of `keys block`.

import { blockingVerb } from './blocking.ts';

export const verb = blockingVerb({
  summary: 'Accepts the keys and user tokens of an owner again. Without an owner: lists those blocked.',
  done: 'not blocked',
  change: (admin, owner, origin) => admin.unblock(owner, origin),
});
