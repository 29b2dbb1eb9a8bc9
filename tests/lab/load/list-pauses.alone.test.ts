// The largest lists, while others wait: for how long each holds up the event loop of a real server.

import { expect, test } from 'bun:test';
import { callOver, userHeaders } from '../../support/client.ts';
import { LOOP_MONITOR, longestPauseMs } from '../../support/loop-pauses.ts';
import { call, post } from '../../support/mcp.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { median } from '../bench/measure.ts';
import { databaseIn, folderWithKeys, USER } from './unread-streams.ts';

const PAUSE_MS_MAX = 10;
/** Each may list 40 times at once. */
const USERS = [USER, ...Array.from({ length: 9 }, (_, index) => `user ${index}`)];
/** The median of the longest pause of each round counts: a list does its work every time, the machine disturbs some. */
const ROUNDS = 7;

const TRANSPORTS: Readonly<Record<string, (url: string, user: Record<string, string>) => Promise<number>>> = {
  REST: async (url, user) => (await callOver(url, 'list_api_keys', {}, user)).body.keys.length,
  MCP: async (url, user) =>
    (await post({ url }, call('list_api_keys'), user)).body.result.structuredContent.keys.length,
};

/** The characters of their scopes, and how many a page has at least: it is bounded by its bytes. */
const KEYS = { 'many keys': [200, 200], 'the largest keys': [2000, 40] } as const;

test
  .skipIf(process.platform !== 'linux')
  .each(
    Object.entries(KEYS).flatMap(([what, sizes]) =>
      Object.keys(TRANSPORTS).map((over) => [what, over, ...sizes] as const),
    ),
  )(
  'a list of %s over %s pauses the event loop for 10 ms at most',
  async (_what, over, scopeChars, pageKeysMin) => {
    const folder = await folderWithKeys(1000, scopeChars, USERS.slice(1));
    await using server = await startServer({
      env: { JWT_SECRET: TEST_SECRET, LOG_LEVEL: 'warn', ...databaseIn(folder) },
      preload: [LOOP_MONITOR],
    });
    const users = await Promise.all(USERS.map((user) => userHeaders(user)));
    const longestMs: number[] = [];
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const user of users) expect(await TRANSPORTS[over]?.(server.url, user)).toBeGreaterThan(pageKeysMin);
      const pauseMs = await longestPauseMs(server);
      if (round > 0) longestMs.push(pauseMs); // the first one is compiled meanwhile
    }
    expect(median(longestMs)).toBeLessThanOrEqual(PAUSE_MS_MAX);
  },
  180_000,
);
