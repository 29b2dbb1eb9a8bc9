// For other services that accept this server's keys (src/api/README.md): /introspect, and /changes with which they check
// keys from memory. A door: the server works without it. It is loaded when a service first asks.

import type { DoorRoutes } from '../../api/index.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { Handlers } from '../../web/router.ts';
import { refuseService } from './refuse.ts';
import type { ServicesOptions } from './service.ts';

export function openServices(core: ServicesOptions): DoorRoutes {
  const lazily = atFirstUse('doors/services', import.meta.url);
  const load = lazily(async () => (await import('./routes.ts')).servicesRoutes(core));
  const route = (name: 'introspect' | 'changes'): Handlers => ({
    post: async (context, body) => (await load())[name](context, body),
    refuse: (_context, problem) => refuseService(problem),
    changesNoKeys: true,
  });
  return { introspect: route('introspect'), changes: route('changes') };
}
