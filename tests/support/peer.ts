// The peer of a request that is made in this process and comes over no connection.

import type { Peer } from '../../src/http/context.ts';

export const NO_CONNECTION: Peer = { address: () => null, holdOpen() {} };
