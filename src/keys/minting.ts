// Creates new keys, as many and as fast as a person may. rotating.ts gives a key another secret.

import type { Metadata } from '../ground/metadata.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorBy, actorFields, type Caller, type Person } from './actor.ts';
import { shownServer, THIS_SERVER } from './audience.ts';
import { checkFields, endAfter, type Grant, type KeyRequest } from './grants.ts';
import { type ApiKeyRecord, fingerprintOf, type MadeKey, mintId, mintKey, NEW_KEY } from './record.ts';
import type { RotateOptions } from './rotating.ts';

type NewKey = KeyRequest & { readonly name: string };

/** A key that a person has approved, created when a code is redeemed. Plain data, so that it can be stored as JSON. */
export interface KeyOrder extends NewKey, Person {}

/** A person's decision on a key that a program gets. */
export type DecidedKey = Omit<NewKey, 'resource' | 'server'>;

/** Parses such a decision, as create_api_key does. */
export type ReadKeyRequest = (fields: unknown) => Result<DecidedKey, Problem>;

export type Minting = ReturnType<typeof createMinting>;

interface MintingOptions extends RotateOptions {
  /** The most keys of owners without a number of their own. */
  readonly ownerDefaults: { readonly keysMax: number };
}

export function createMinting(options: MintingOptions) {
  const { store, clock, random, log, originOf, grantFor, creations } = options;
  function grantAndCharge(actor: Actor, request: NewKey): Result<Grant, Problem> {
    const possible = checkFields({ ...request, name: request.name ?? '' }); // in JavaScript it may be missing
    if (!possible.ok) return possible;
    const grant = grantFor(actor, request);
    if (!grant.ok) return grant;
    const taken = creations.take(actor);
    return taken.ok ? grant : taken;
  }

  function newKey(userId: string, name: string, grant: Grant, metadata: Metadata | null = null): MadeKey {
    const { expiresInDays, ...given } = grant;
    const { key, keyHash } = mintKey(options);
    const createdAtMs = clock.nowMs();
    const record: ApiKeyRecord = {
      ...NEW_KEY,
      ...given,
      metadata,
      id: mintId(random),
      userId,
      name,
      keyHash,
      createdAtMs,
      expiresAtMs: expiresInDays === null ? null : endAfter(expiresInDays, createdAtMs),
    };
    return { record, key };
  }

  return {
    /** Creates a key within what the actor may grant. Its plain text is never shown again. `metadata`: an operator's. */
    async create(actor: Actor, request: NewKey, metadata: Metadata | null = null): Promise<Result<MadeKey, Problem>> {
      const grant = grantAndCharge(actor, request);
      if (!grant.ok) return grant;
      const { record, key } = newKey(actor.userId, request.name, grant.value, metadata);
      const origin = originOf('tool', actor, actor.actor);
      const inserted = await store.insert(record, options.ownerDefaults.keysMax, origin);
      if (inserted === 'limit_reached') return err({ code: 'key_limit_reached' });
      logCreated(log, record, actor);
      return ok({ record, key });
    },

    /** Checks and rate-limits like `create`, for a key that is created later. */
    order(actor: Actor, request: NewKey): Result<KeyOrder, Problem> {
      const grant = grantAndCharge(actor, request);
      const { userId, actor: person, grantable } = actor;
      return grant.ok ? ok({ userId, actor: person, grantable, ...request }) : grant;
    },

    /** Returns an order's key, not stored yet; a problem if a ceiling was lowered meanwhile. */
    mint({ name, userId, actor, grantable, ...request }: KeyOrder, caller: Caller): Result<MadeKey, Problem> {
      const grant = grantFor(actorBy(caller, { userId, actor, grantable }), request);
      return grant.ok ? ok(newKey(userId, name, grant.value)) : grant;
    },
  };
}

export function logCreated(log: Log, { id: keyId, keyHash, resource: server }: ApiKeyRecord, actor: Actor): void {
  const fingerprint = fingerprintOf(keyHash);
  const resource = server === null ? undefined : shownServer(server, actor.publicUrl ?? THIS_SERVER);
  log.info('API key created', { ...actorFields(actor), keyId, fingerprint, resource });
}
