// The routes of the table, as the sweeps ask them.

import { ROUTES, type RouteFacts, routeNames } from '../../src/api/table.ts';

export type { RouteFacts };

export const rows = routeNames.map((name): [string, RouteFacts] => [name, ROUTES[name]]);

export const pathOf = ({ path }: RouteFacts): string => path.replace(/<\w+>/, 'get_data');

/** The one to ask it with first. */
export const methodOf = ({ method }: RouteFacts): string => (method === 'any' ? 'GET' : (method.split(', ')[0] ?? ''));

export const PATHS = rows.map(([, route]) => pathOf(route));
