// The admin guard: only people whose token has the claim of ADMIN_CLAIM. Comes after the user JWT guard.

import { actorFields, type Caller } from '../keys/actor.ts';
import { err } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import { type Guard, PASS } from './guard.ts';
import { actorOf, type UserAuth } from './user-jwt.ts';

export function adminGuard(log: Log): Guard<Caller & UserAuth> {
  return (call) => {
    if (call.auth.isAdmin) return PASS;
    log.warn('Admin required', actorFields(actorOf(call)));
    return err({ code: 'admin_required' });
  };
}
