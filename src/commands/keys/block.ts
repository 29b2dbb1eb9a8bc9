// `keys block`: a blocked user can neither use keys nor make new ones, and no key is lost.

import { blockingVerb } from './blocking.ts';

export const verb = blockingVerb({
  summary: 'Refuses all keys and user tokens of an owner, until unblocked. Without an owner: lists those blocked.',
  done: 'blocked',
  change: (admin, owner, origin) => admin.block(owner, origin),
});
