// The two servers that are compared: with the same settings, secret and user tokens, each with a database of its own.

import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { userToken } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import type { ServerOptions } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { type StoreMode, storeEnvOn } from '../../support/store-mode.ts';
import { HANDS_OUT, type Target, targetOf, WITH_SECRET } from '../fuzz/settings.ts';

/** Where a server comes from, and what it runs on. */
export interface Other extends Pick<ServerOptions, 'root' | 'runtime'> {
  readonly store: StoreMode;
  /** Variables that this server does not have. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Everything is on that hands out keys, and nothing refuses for being busy: that depends on the machine. */
const SETTINGS = {
  ...WITH_SECRET,
  ...HANDS_OUT,
  MCP_AUTH: 'lazy',
  ADMIN_CLAIM: 'sub=user-0',
  USER_RATE_LIMIT: '0',
  REVOCATION_LAG_MAX_MS: '10000',
};

export async function startBoth(other: Other, env: Readonly<Record<string, string>>) {
  // A server names a command that is on its PATH.
  const bin = temporaryFolder();
  symlinkSync(process.execPath, join(bin, 'bun'));
  const PATH = `${bin}:${process.env.PATH}`;
  const tokens = new Map<string, Promise<string>>();
  const sameToken = (sub: string): Promise<string> => {
    const token = tokens.get(sub) ?? userToken(sub);
    tokens.set(sub, token);
    return token;
  };
  async function start({ store, env: own, ...from }: Other): Promise<Target> {
    const sqld = store === 'embedded' ? null : await startSqld();
    const storeEnv = sqld === null ? {} : storeEnvOn(sqld.env, store);
    const target = await targetOf({ ...SETTINGS, PATH, ...storeEnv, ...env, ...own }, () => {}, {
      from,
      userToken: sameToken,
    });
    return {
      ...target,
      async [Symbol.asyncDispose]() {
        await target[Symbol.asyncDispose]();
        await sqld?.kill();
      },
    };
  }
  const theirs = await start(other);
  const ours = await start({ store: 'embedded', runtime: 'bun' });
  return {
    theirs,
    ours,
    async [Symbol.asyncDispose]() {
      await theirs[Symbol.asyncDispose]();
      await ours[Symbol.asyncDispose]();
    },
  };
}
