// What owners see of what counts for all their keys together.

import * as v from 'valibot';
import { writtenLimit } from '../ground/rate-limit.ts';
import type { ShownOwner } from '../keys/plans.ts';
import { rateLimitFields, shownQuotaFields } from './key-fields.ts';

const count = v.pipe(v.number(), v.integer());

export const usesFields = v.strictObject({ today: count, last30Days: v.array(count) });

export const writtenUses = ({ today, last30Days }: ShownOwner['uses']) => ({ today, last30Days: [...last30Days] });

/** What owners see above the list of their keys. */
export const ownPlanFields = v.strictObject({
  rateLimit: v.optional(rateLimitFields),
  quota: v.optional(shownQuotaFields),
  keysMax: count,
  uses: usesFields,
});

export const writtenPlan = ({ rateLimit, quota, keysMax, uses }: ShownOwner) => ({
  ...(rateLimit !== null && { rateLimit: writtenLimit(rateLimit) }),
  ...(quota !== null && { quota }),
  keysMax,
  uses: writtenUses(uses),
});
