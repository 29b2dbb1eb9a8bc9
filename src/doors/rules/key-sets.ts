// The key sets of the issuers that rules name: each fetched when its first token comes, or given by the operator.

import type { JSONWebKeySet } from 'jose';
import { createLruCache, once } from '../../ground/cache.ts';
import { createFairSemaphore } from '../../ground/limits/semaphore.ts';
import type { Clock } from '../../ground/runtime.ts';
import { isIssuer, trustedUrl } from '../../ground/urls.ts';
import { loadJwks } from '../../users/discovery.ts';
import { ASYMMETRIC, createJwks, keysOf } from '../../users/jwks.ts';
import { IssuerOutage, type VerificationKeys } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { RULE_MAXIMA } from './rule.ts';
import type { StoredRule } from './store.ts';

/** While a set can't be fetched, the old one is used up to this age. */
const LASTS_MS = 60 * 60_000;
const FAILURE_PAUSE_MS = 10_000;
const FETCHES_MAX = 4;
/** Sixteen others may hang before, for 5 s each. Waiting in vain counts as a failure of the issuer, so it must be rare. */
const FETCH_WAIT_MS_MAX = 20_000;
const WAITING = { total: 1000, each: 1000 };

export type KeySets = ReturnType<typeof createKeySets>;

export function createKeySets({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
  const bySource = createLruCache<VerificationKeys>({ entries: RULE_MAXIMA.issuers });
  const fetches = createFairSemaphore({ total: FETCHES_MAX, each: FETCHES_MAX }, WAITING, clock);

  function fetched(issuer: string, url: string | null): VerificationKeys {
    const source = url !== null ? trustedUrl(url) : isIssuer(issuer) ? issuer : null;
    async function loadInTurn(): Promise<JSONWebKeySet> {
      if (source === null) {
        const what = url === null ? 'the issuer' : "the key set's address";
        throw new IssuerOutage(`${what} is no https URL`); // typed into the database
      }
      const release = await fetches.acquire(issuer, FETCH_WAIT_MS_MAX);
      if (release === null) throw new IssuerOutage('the key set had to wait too long for its turn');
      try {
        return await loadJwks(source, clock);
      } finally {
        release();
      }
    }
    return createJwks({ load: loadInTurn, clock, log, issuer, pauseMs: FAILURE_PAUSE_MS, lastsMs: LASTS_MS });
  }

  return {
    /** Returns the keys of a rule's issuer: one object as long as they come from the same source. */
    of({ issuer, keySet }: Pick<StoredRule, 'issuer' | 'keySet'>): VerificationKeys {
      const source = JSON.stringify([issuer, keySet]);
      const known = bySource.get(source);
      if (known !== undefined) return known;
      const keys = isGiven(keySet) ? given(keySet) : fetched(issuer, keySet);
      bySource.set(source, keys);
      return keys;
    },
  };
}

/** Returns whether the operator gave the set itself, as JSON, and no URL. */
export const isGiven = (keySet: string | null): keySet is string => keySet?.startsWith('{') === true;

function given(json: string): VerificationKeys {
  const keys = once(() => keysOf(setIn(json)));
  return { algorithms: ASYMMETRIC, current: keys, get: keys, refreshed: keys };
}

function setIn(json: string): JSONWebKeySet {
  try {
    return JSON.parse(json);
  } catch {
    throw new IssuerOutage('the key set is not JSON'); // typed into the database
  }
}
