// The code's own tables, with which documents are compared and of which sweeps are made: what is added to one is in all.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROUTES, type RouteFacts, type RouteName, routeNames } from '../../src/api/table.ts';

export { TOOL_TIMEOUT_MS } from '../../src/calls/operation.ts';
export { KNOWN_CLIENTS } from '../../src/config/client-ids.ts';
export { NAMES as VARIABLES } from '../../src/config/env.ts';
export { METRICS } from '../../src/doors/metrics/series.ts';
export { LIMITS, type Limit } from '../../src/ground/limits/index.ts';
export { problemText, publicPart, type ServerCode } from '../../src/ground/problem.ts';
export { KEYS_MAX_DEFAULT } from '../../src/ground/rate-limit.ts';
export { SUBJECT_CHARS_MAX } from '../../src/ground/text.ts';
export { TABLES } from '../../src/store/tables.ts';
export { EVENT_KINDS } from '../../src/store/trail.ts';
export { EVENTS } from '../../src/watch/events.ts';
export { BODY_BYTES_MAX } from '../../src/web/body.ts';

export type { RouteFacts, RouteName };

/** Which door has a route. One that was taken out of a copy has none. */
const DOOR_OF: Partial<Readonly<Record<RouteName, string>>> = {
  introspect: 'services',
  changes: 'services',
  register: 'signin',
  authorize: 'signin',
  deviceAuthorization: 'signin',
  deviceRequest: 'signin',
  deviceDecision: 'signin',
  serverMetadata: 'signin',
  resourceMetadata: 'signin', // in these sweeps: clients sign in here
  sse: 'sse',
  messages: 'sse',
};

const isServed = (name: RouteName): boolean => {
  const door = DOOR_OF[name];
  return door === undefined || existsSync(join(import.meta.dir, '../../src/doors', door));
};

/** The routes, as the sweeps ask them. */
export const rows = routeNames.filter(isServed).map((name): [RouteName, RouteFacts] => [name, ROUTES[name]]);

export const pathOf = ({ path }: RouteFacts): string => path.replace(/<\w+>/, 'get_data');

/** The one to ask it with first. */
export const methodOf = ({ method }: RouteFacts): string => (method === 'any' ? 'GET' : (method.split(', ')[0] ?? ''));

export const PATHS = rows.map(([, route]) => pathOf(route));
