// `keys create`: creates a key for anybody, here or on another server. Only the key goes to stdout; without a secret, its id.

import { fstatSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { publicPart } from '../../ground/problem.ts';
import { NO_CEILINGS } from '../../ground/rate-limit.ts';
import { sleep, systemClock, systemRandom } from '../../ground/runtime.ts';
import { createServerAddress } from '../../ground/server-address.ts';
import { withoutControls } from '../../ground/text.ts';
import { createAudience } from '../../keys/audience.ts';
import { OPERATORS_SCOPES } from '../../keys/grants.ts';
import { createKeyDomain } from '../../keys/index.ts';
import { keyRequestFields } from '../../tools/key-fields.ts';
import { command } from '../command.ts';
import { CommandError, type Io, type IoStreams, UsageError } from '../io.ts';
import { flag, LIMIT, META, many, NAME, NUMBER, OWNER, optional, QUOTA, SCOPE } from '../options.ts';
import { byCommand, sha256, stderrLog, usageErrorOf, withStore } from './database.ts';
import { NOBODY_DECIDED, poll, requestKey, SERVER, sayWhere, type Wish } from './device-client.ts';

const WAIT_MS_MAX = 5000;

export const verb = command({
  name: 'keys create',
  summary:
    'Creates a key and prints it, and nothing else, on stdout. It is shown this once. --no-secret: a key for rules alone (keys rule add), of which the id is printed, and nobody sees the secret. With --ask it asks another server, where a person decides; --name and --scope are what that person is shown.',
  options: {
    user: optional(OWNER),
    name: optional(NAME),
    scope: many(SCOPE),
    days: optional(NUMBER),
    limit: optional(LIMIT),
    quota: optional(QUOTA),
    meta: META,
    ask: optional(SERVER),
    'no-secret': flag,
  },
  async run({
    options: { user, name, scope: scopes, days: expiresInDays, limit: rateLimit, quota, meta: metadata, ask, ...more },
    io,
  }) {
    const hasSecret = !more['no-secret'];
    if (hasSecret && isLost(io)) throw new CommandError('stdout is closed or /dev/null, where the key would be lost');
    if (ask !== undefined) {
      if (!hasSecret || [user, expiresInDays, rateLimit, quota, metadata].some((given) => given !== undefined))
        throw new UsageError('expected only --name and --scope beside --ask: a person decides the rest');
      return askForKey(ask, { name, scopes }, io);
    }
    if (user === undefined || name === undefined) throw new UsageError('expected --user and --name, or --ask');
    await withStore(io, async (store, config) => {
      const keyCeilings = { ...config.keyCeilings, limits: NO_CEILINGS };
      const input = parserOf(v.strictObject(keyRequestFields(keyCeilings)))({ name, scopes, expiresInDays });
      if (!input.ok) throw usageErrorOf(input.error);
      const domain = createKeyDomain({
        ...config,
        store,
        derived: store.derived,
        clock: systemClock,
        random: systemRandom,
        sha256,
        log: stderrLog(io),
        originOf: () => byCommand(io),
        audience: createAudience(createServerAddress(config), config.resources),
        keyCeilings,
      });
      const actor = { userId: user, actor: user, grantable: null, requestId: 'keys create', clientAddress: () => '' };
      if (await store.isBlocked(user, WAIT_MS_MAX))
        throw new CommandError('the owner is blocked, so the key would be refused: keys unblock');
      const request = { ...input.value, rateLimit, quota, held: OPERATORS_SCOPES };
      const created = await domain.keys.create(actor, request, metadata);
      if (!created.ok) {
        const { error } = created;
        if (error.code === 'invalid_input') throw usageErrorOf(error); // above a ceiling
        throw new CommandError(`${error.code}: ${publicPart(error).detail}`); // full
      }
      const { record, key } = created.value;
      io.say(`created ${record.id} for ${JSON.stringify(user)}`);
      await io.write(`${hasSecret ? key : record.id}\n`).catch(() => {
        throw new CommandError('the key could not be printed, and is lost: revoke it');
      });
      await domain.stop();
    });
  },
});

/** Returns whether output would be lost. For a descriptor closed at the start, the runtime opens the null device. */
const isLost = ({ stdout: { fd } }: IoStreams) =>
  fd !== undefined && fstatSync(fd).rdev === statSync(devNull, { throwIfNoEntry: false })?.rdev;

const REQUEST_MS_MAX = 10_000;
/** Added to the pause after `slow_down` (RFC 8628 §3.5), or without a response. */
const SLOWER_S = 5;

/** Requests a key from another server, and polls until a person has decided, or the request expires. */
async function askForKey(server: string, wish: Wish, io: Io): Promise<void> {
  const request = await requestKey(server, wish, AbortSignal.timeout(REQUEST_MS_MAX));
  sayWhere(io, request.verification_uri_complete, request.user_code);
  const untilMs = performance.now() + request.expires_in * 1000;
  for (let pauseS = request.interval; performance.now() < untilMs; ) {
    await sleep(Math.min(pauseS * 1000, untilMs - performance.now()));
    const { made, ended, isPending } = await poll(server, request.device_code, AbortSignal.timeout(REQUEST_MS_MAX));
    if (made !== null) {
      io.say(`created ${withoutControls(made.id)}`);
      return io.write(`${made.key}\n`).catch(() => {
        throw new CommandError('the key could not be printed, and is lost: end it in the list of keys');
      });
    }
    if (ended !== undefined) throw new CommandError(`${ended}: ask again`);
    if (!isPending) pauseS += SLOWER_S;
  }
  throw new CommandError(`${NOBODY_DECIDED}: ask again`);
}
