// The page /keys (src/pages/README.md): the document, and what it asks that is no tool: an owner's edit of a key, and the
// history of one. A door: the server works without it. It is loaded at its first use.

import type { DoorRoutes } from '../../api/index.ts';
import type { Config } from '../../config/config.ts';
import type { Env } from '../../config/env.ts';
import { shownMintingCommand } from '../../config/token-settings.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import { createFindSignIn } from '../../users/sign-in.ts';
import type { KeysPageOptions } from './document.ts';
import type { OwnKeyRoutesOptions } from './own-keys.ts';

interface PageOptions extends Omit<KeysPageOptions, 'config' | 'findSignIn' | 'mints'>, OwnKeyRoutesOptions {
  readonly config: Config;
  readonly env: Env;
  /** How messages run a script of package.json; null: not possible. */
  readonly runScript: string | null;
}

/** Opens the page: returns its routes; none if it is off. */
export function openPage(core: PageOptions): DoorRoutes {
  const { config, env, address, runScript, clock, log } = core;
  if (config.keysPage === null) return {};
  const { signIn } = config.keysPage;
  const options = {
    ...core,
    findSignIn: signIn && createFindSignIn(signIn.issuer, clock, log),
    mints: shownMintingCommand(config, { env, publicUrl: address.url, runScript }),
  };
  const lazily = atFirstUse('doors/page', import.meta.url);
  const document = lazily(async () => (await import('./document.ts')).keysPageRoute(options));
  const { part } = core;
  const forAdmins = part && lazily(async () => (await import('./document.ts')).partRoute(part));
  const own = lazily(async () => (await import('./own-keys.ts')).ownKeyRoutes(options));
  return {
    keys: { get: async (context) => (await document())(context) },
    part: forAdmins && { get: async (context) => (await forAdmins())(context) },
    edit: { post: async (context, body) => (await own()).edit(context, body) },
    history: { post: async (context, body) => (await own()).history(context, body) },
  };
}
