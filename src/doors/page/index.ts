// The page /keys (src/pages/README.md): the document, and what it asks that is no tool: an owner's edit of a key, and the
// history of one. A door: the server works without it. It is loaded at its first use.

import type { DoorRoutes } from '../../api/index.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { KeysPageOptions } from './document.ts';
import type { OwnKeyRoutesOptions } from './own-keys.ts';

export function openPage(core: KeysPageOptions & OwnKeyRoutesOptions): DoorRoutes {
  const { config, part } = core;
  if (config.keysPage === null) return {};
  const lazily = atFirstUse('doors/page', import.meta.url);
  const document = lazily(async () => (await import('./document.ts')).keysPageRoute(core));
  const forAdmins = part && lazily(async () => (await import('./document.ts')).partRoute(part));
  const own = lazily(async () => (await import('./own-keys.ts')).ownKeyRoutes(core));
  return {
    keys: { get: async (context) => (await document())(context) },
    adminPart: forAdmins && { get: async (context) => (await forAdmins())(context) },
    keyEdit: { post: async (context, body) => (await own()).edit(context, body) },
    keyHistory: { post: async (context, body) => (await own()).history(context, body) },
  };
}
