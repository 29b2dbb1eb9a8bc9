// Revocation elsewhere, seen through each proxy, with remote databases and replicas.

import { describe, test } from 'bun:test';
import { expectRevokedInTime, VERIFY_RECIPES } from '../../recipes/revocation.ts';
import { isMissing } from '../../support/front-proxy.ts';

describe.each(VERIFY_RECIPES)('%s', (program, recipe) => {
  test.skipIf(isMissing(program)).each(['remote', 'replica'] as const)('on a %s store', (mode) =>
    expectRevokedInTime(mode, program, recipe),
  );
});
