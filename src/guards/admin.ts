// The admin guard: only people whose token has the claim of ADMIN_CLAIM. Comes after the user JWT guard.

import { err } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { CallIds } from './api-key.ts';
import { type Guard, PASS } from './guard.ts';
import type { UserAuth } from './user-jwt.ts';

export function adminGuard(log: Log): Guard<CallIds & UserAuth> {
  return ({ requestId, traceId, auth }) => {
    if (auth.isAdmin) return PASS;
    const { subject: userId, actor } = auth;
    log.warn('Admin required', { requestId, traceId, userId, ...(actor !== userId && { actor }) });
    return err({ code: 'admin_required' });
  };
}
