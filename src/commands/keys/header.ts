// `keys header`: prints a header with a key, for hosts that run a helper for their headers. Without a key it requests one
// from the server (RFC 8628), and says so; the next call continues with the same request. The key is stored in a file, and
// sent only to that server: a repository may name any URL.

import { reasonOf, withoutControls } from '../../ground/text.ts';
import { command } from '../command.ts';
import { CommandError, type Io, UsageError } from '../io.ts';
import { kind, many, NAME, needed, optional, SCOPE, SPAN_MS } from '../options.ts';
import { SERVER } from './ask.ts';
import { type Answer, begunIn, keyIn, postForm } from './asked-server.ts';
import { type Kept, withKept } from './kept-keys.ts';

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
    const key = await withKept(io, server, (kept) => {
      const asking = { server, kept, scopes, name, signal, io };
      return livesMs === undefined ? keyFor(asking) : childFor(asking, livesMs);
    });
    await io.write(`${JSON.stringify({ 'X-API-Key': key })}\n`);
  },
});

interface Asking {
  readonly server: string;
  readonly kept: Kept;
  /** The scopes, sorted. */
  readonly scopes: readonly string[];
  readonly name: string | undefined;
  readonly signal: AbortSignal;
  readonly io: Io;
}

/** Returns the stored key unless the server refuses it; otherwise one that a person approves. */
async function keyFor(asking: Asking): Promise<string> {
  const { kept } = asking;
  if (kept.key !== undefined && (await standingOf(asking, kept.key)).is !== 'refused') return kept.key;
  delete kept.key;
  return asked(asking, asking.scopes);
}

/** Returns a child of the key: the same until little of its life is left, or it has ended. */
async function childFor(asking: Asking, livesMs: number): Promise<string> {
  const { server, kept, scopes, name } = asking;
  const wish = JSON.stringify([name ?? null, scopes]);
  const known = kept.children[wish];
  const isLasting =
    known !== undefined && known.endsAtMs - Date.now() > (known.endsAtMs - known.madeAtMs) * LEFT_PART_MIN;
  if (isLasting && (await standingOf(asking, known.key)).is !== 'refused') return known.key;
  delete kept.children[wish];
  kept.key ??= await asked(asking, [...scopes, 'delegate']);
  const made = await post(asking, '/token', {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: kept.key,
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    scope: scopes.join(' '),
    expires_in: String(Math.floor(livesMs / 1000)),
    ...(name !== undefined && { client_name: name }),
  });
  const child = keyIn(made, server);
  if (child?.livesS !== undefined) {
    const madeAtMs = Date.now();
    kept.children[wish] = { key: child.key, madeAtMs, endsAtMs: madeAtMs + child.livesS * 1000 };
    return child.key;
  }
  if (made.body.error !== 'invalid_grant') throw new CommandError(`the server makes no such key: ${saidBy(made)}`);
  const standing = await standingOf(asking, kept.key);
  if (standing.is === 'good') throw new CommandError('the kept key has no scope "delegate": make one that has');
  delete kept.key;
  return asked(asking, [...scopes, 'delegate']);
}

type Standing = 'good' | 'refused' | 'unknown';

/** Returns what the server says of a key. If it can't say now, it has not refused the key. */
async function standingOf({ server, signal }: Asking, key: string): Promise<{ readonly is: Standing }> {
  try {
    const headers = { 'X-API-Key': key };
    const { status } = await fetch(`${server}/verify`, { headers, redirect: 'error', signal });
    return { is: status === 200 || status === 429 ? 'good' : status === 401 ? 'refused' : 'unknown' };
  } catch {
    return { is: 'unknown' };
  }
}

/** Requests a key, or polls the open request. Throws until a person has decided. */
async function asked(asking: Asking, scopes: readonly string[]): Promise<string> {
  const { server, kept, name, io } = asking;
  const wish = JSON.stringify([name ?? null, scopes]);
  const open = kept.requests[wish];
  if (open === undefined) return begin(asking, wish, scopes);
  const polled = await post(asking, '/token', {
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    device_code: open.deviceCode,
  });
  const { error } = polled.body;
  const given = keyIn(polled, server);
  if (given !== null) {
    delete kept.requests[wish];
    kept.key = given.key;
    return given.key;
  }
  const isOpen = (error === 'authorization_pending' || error === 'slow_down') && Date.now() < open.endsAtMs;
  if (isOpen || polled.status >= 500) return waits(io, open);
  delete kept.requests[wish];
  const why = error === 'access_denied' ? 'the person has refused' : 'nobody has decided in time';
  throw new CommandError(`${why}: the next call asks again`);
}

async function begin(asking: Asking, wish: string, scopes: readonly string[]): Promise<never> {
  const { kept, name, io, server } = asking;
  const begun = await post(asking, '/device_authorization', {
    ...(name !== undefined && { client_name: name }),
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  });
  const request = begunIn(begun);
  if (request === null) {
    const hint = begun.status === 404 ? ', as without OAUTH_DEVICE=1' : '';
    throw new CommandError(`${server} takes no requests for keys: ${saidBy(begun)}${hint}`);
  }
  const open = {
    deviceCode: request.device_code,
    userCode: request.user_code,
    uri: request.verification_uri_complete,
    endsAtMs: Date.now() + request.expires_in * 1000,
  };
  kept.requests[wish] = open;
  return waits(io, open);
}

function waits(io: Io, { uri, userCode }: { readonly uri: string; readonly userCode: string }): never {
  io.say(`Open ${withoutControls(uri)}`);
  io.say(`and check that it asks for ${withoutControls(userCode)}`);
  throw new CommandError('a person has to decide: then call again');
}

const saidBy = ({ status, body: { error } }: Answer): string =>
  typeof error === 'string' ? withoutControls(error).slice(0, 100) : `it responded ${status}`;

async function post({ server, signal }: Asking, path: string, fields: Record<string, string>): Promise<Answer> {
  try {
    return await postForm(server + path, fields, signal);
  } catch (error) {
    throw new CommandError(`${server} can't be reached: ${reasonOf(error)}`);
  }
}
