// `keys header`: prints a header with a key, for hosts that run a helper for their headers. Without a key it requests one
// from the server (RFC 8628), and says so; the next call continues with the same request. The key is stored in a file, and
// sent only to that server: a repository may name any URL.

import { fetchEncoded } from '../../ground/fetching.ts';
import { command } from '../command.ts';
import { CommandError, type Io, UsageError } from '../io.ts';
import { kind, many, NAME, needed, optional, SCOPE, SPAN_MS } from '../options.ts';
import {
  assertReached,
  keyIn,
  NOBODY_DECIDED,
  objectIn,
  poll,
  postForm,
  requestKey,
  SERVER,
  saidBy,
  sayWhere,
  verdictIn,
} from './device-client.ts';
import { type Kept, type KeptKeys, openKept } from './saved-keys.ts';

/** The time for the lock and all requests together, because a host waits for it. */
const CALL_MS_MAX = 4000;

const LIFE_MS = { min: 60_000, max: 24 * 3_600_000 };
/** The part of its life left at which a child is replaced. */
const LEFT_PART_MIN = 0.1;

const LIFE = kind('1h', 'a time of 60s to 24h, like 10m or 1h', (given) => {
  const ms = SPAN_MS.parse(given);
  return ms !== null && ms >= LIFE_MS.min && ms <= LIFE_MS.max ? ms : null;
});

export const verb = command({
  name: 'keys header',
  summary:
    'Prints {"X-API-Key": …} for a server, and keeps the key. Without one it asks a person, and ends with 1: then call it again. --child: prints a key of --scope that the kept one has made, which lives so long.',
  options: { scope: many(SCOPE), name: optional(NAME), child: optional(LIFE) },
  argument: needed(SERVER),
  async run({ options: { scope, name, child: livesMs }, argument: server, io }) {
    const scopes = [...new Set(scope)].sort();
    if (livesMs !== undefined && scopes.length === 0) throw new UsageError('--child: expected --scope beside it');
    const signal = AbortSignal.timeout(CALL_MS_MAX);
    const kept = openKept(io, server, signal);
    const asking = { server, kept, scopes, name, signal, io, wish: JSON.stringify([name ?? null, scopes]) };
    const key = await (livesMs === undefined ? keyFor(asking) : childFor(asking, livesMs));
    await io.write(`${JSON.stringify({ 'X-API-Key': key })}\n`);
  },
});

interface Asking {
  readonly server: string;
  readonly kept: KeptKeys;
  /** Sorted. */
  readonly scopes: readonly string[];
  readonly name: string | undefined;
  /** What is asked for, by which requests and children are stored. */
  readonly wish: string;
  readonly signal: AbortSignal;
  readonly io: Io;
}

/** Returns the stored key unless the server refuses it; otherwise one that a person approves. */
function keyFor(asking: Asking): Promise<string> {
  const { kept, wish, scopes } = asking;
  const find = ({ key }: Kept) => key;
  return known(asking, find, async (refused) => {
    if (refused !== undefined) await withoutKey(kept);
    return asked(asking, wish, scopes);
  });
}

/** Returns a child of the key: the same until little of its life is left, or it has ended. */
function childFor(asking: Asking, livesMs: number): Promise<string> {
  const { kept, wish } = asking;
  const find = ({ children: { [wish]: child } }: Kept) => child && lastingKey(child);
  return known(asking, find, async (refused) => {
    if (refused !== undefined) await kept.change(({ children }) => void delete children[wish]);
    return makeChild(asking, livesMs);
  });
}

function lastingKey({ key, madeAtMs, endsAtMs }: Kept['children'][string]): string | undefined {
  return endsAtMs - Date.now() > (endsAtMs - madeAtMs) * LEFT_PART_MIN ? key : undefined;
}

/** Returns the stored key. If there is none, or the server refuses it, gets another, one call at a time. */
async function known(
  asking: Asking,
  find: (kept: Kept) => string | undefined,
  renew: (refused: string | undefined) => Promise<string>,
): Promise<string> {
  const { kept } = asking;
  const key = find(kept.read());
  if (key !== undefined && (await keyStateOf(asking, key)) !== 'refused') return key;
  function newer(): string | undefined {
    const found = find(kept.read());
    return found === key ? undefined : found;
  }
  return kept.alone(newer, () => renew(key));
}

const withoutKey = (kept: KeptKeys): Promise<void> => kept.change((own) => void delete own.key);

async function makeChild(asking: Asking, livesMs: number): Promise<string> {
  const { server, kept, scopes, name, wish, signal } = asking;
  const wider = [...scopes, 'delegate'];
  const askForParent = () => asked(asking, JSON.stringify([name ?? null, wider]), wider);
  const parent = kept.read().key ?? (await askForParent());
  const fields = {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: parent,
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    scope: scopes.join(' '),
    expires_in: String(Math.floor(livesMs / 1000)),
    ...(name !== undefined && { client_name: name }),
  };
  const made = await postForm(`${server}/token`, fields, signal);
  assertReached(server, made.fault);
  const child = keyIn(made, server);
  if (child?.livesS !== undefined) {
    const { key, livesS } = child;
    const madeAtMs = Date.now();
    await kept.change(({ children }) => {
      children[wish] = { key, madeAtMs, endsAtMs: madeAtMs + livesS * 1000 };
    });
    return key;
  }
  const state = verdictIn(made) === 'invalid_grant' ? await keyStateOf(asking, parent) : 'unknown';
  if (state === 'good') throw new CommandError('the kept key has no scope "delegate": make one that has');
  if (state === 'unknown') throw new CommandError(`the server makes no such key: ${saidBy(made)}`);
  await withoutKey(kept);
  return askForParent();
}

type KeyState = 'good' | 'refused' | 'unknown';

/**
 * Returns what the server says of a key. If it can't say now, or something before it responds, it has not refused the key.
 */
async function keyStateOf({ server, signal }: Asking, key: string): Promise<KeyState> {
  try {
    const headers = { 'X-API-Key': key };
    const response = await fetchEncoded(`${server}/verify`, { headers, redirect: 'error', signal });
    if (response.status === 200 || response.status === 429) return 'good';
    const { code } = await objectIn(response);
    return response.status === 401 && code === 'invalid_api_key' ? 'refused' : 'unknown';
  } catch {
    return 'unknown';
  }
}

/** Requests a key, or polls the open request. Throws until a person has decided. */
async function asked(asking: Asking, wish: string, scopes: readonly string[]): Promise<string> {
  const { server, kept, io, signal } = asking;
  const open = kept.read().requests[wish];
  if (open === undefined) return begin(asking, wish, scopes);
  const { made, ended, fault } = await poll(server, open.deviceCode, signal);
  if (made !== null) {
    await kept.change((own) => {
      delete own.requests[wish];
      own.key = made.key;
    });
    return made.key;
  }
  assertReached(server, fault);
  const why = ended ?? (Date.now() < open.endsAtMs ? undefined : NOBODY_DECIDED);
  if (why === undefined) return waits(io, open);
  await kept.change(({ requests }) => {
    delete requests[wish];
  });
  throw new CommandError(`${why}: the next call asks again`);
}

async function begin({ kept, name, io, server, signal }: Asking, wish: string, scopes: readonly string[]) {
  const request = await requestKey(server, { name, scopes }, signal);
  const open = {
    deviceCode: request.device_code,
    userCode: request.user_code,
    uri: request.verification_uri_complete,
    endsAtMs: Date.now() + request.expires_in * 1000,
  };
  await kept.change(({ requests }) => {
    requests[wish] = open;
  });
  return waits(io, open);
}

function waits(io: Io, { uri, userCode }: Kept['requests'][string]): never {
  sayWhere(io, uri, userCode);
  throw new CommandError('a person has to decide: then call again');
}
