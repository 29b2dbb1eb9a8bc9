// Decisions about where a request comes from: host name and origin. Pure.

import { isAddress, isLoopback } from '../lib/ip.ts';
import { memoize } from '../lib/memoize.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

const ALLOWED: Result<void, Problem> = ok(undefined);

/**
 * `Host` names this server responds to. DNS rebinding needs a name that an attacker controls and points at us, so IP
 * literals pass. `allowed` are lower-case names without port; null: loopback and the public host.
 */
export function createHostCheck(allowed: readonly string[] | null, publicHost: () => string) {
  // Requests repeat the same few hosts, and parsing a URL each time would cost more than the rest of the decision.
  return memoize((host: string): Result<void, Problem> => {
    if (NOT_IN_HOST.test(host) || !URL.canParse(`http://${host}`)) return err({ code: 'host_denied' });
    const name = new URL(`http://${host}`).hostname.toLowerCase();
    const known = allowed === null ? isLoopback(name) || name === publicHost() : allowed.includes(name);
    return known || isAddress(name) ? ALLOWED : err({ code: 'host_denied' });
  });
}

/** Origins whose pages may call; the server's own always may. `null` (sandboxed pages, files) never may. */
export function createOriginCheck(allowed: readonly string[] | null, publicOrigin: () => string) {
  return memoize((origin: string): Result<void, Problem> => {
    const url = URL.canParse(origin) ? new URL(origin) : null;
    const web =
      url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.origin === origin.toLowerCase();
    const known =
      web &&
      (url.origin === publicOrigin() || (allowed === null ? isLoopback(url.hostname) : allowed.includes(url.origin)));
    return known ? ALLOWED : err({ code: 'origin_denied' });
  });
}

/** Characters that end the host in a URL, and would leave the rest of the header unread. */
const NOT_IN_HOST = /[/\\?#@]/;
