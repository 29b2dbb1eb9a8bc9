// The peer of a request that is made in this process and comes over no connection.

import type { Connections } from '../../src/web/context.ts';

export const NO_CONNECTION: Connections = { address: () => null, holdOpen() {} };
