// Stores programs' requests for a key that wait for a person (db/README.md): limits how many are open, and makes room.

import { LIMITS } from '../../ground/limits/index.ts';
import { type Database, firstOf } from '../../store/database.ts';
import { hasChanged } from '../../store/key-changes.ts';

/** The request of a device, which a person finds by another code. */
export interface AskedCode {
  readonly hash: string;
  readonly content: string;
  readonly endsAtMs: number;
  readonly userCodeHash: string;
  /** Who asks (networkOf in ground/ip.ts). */
  readonly askedFrom: string;
  /** The common prefix of the addresses of its /24 or /48 (prefixOf in device-request.ts). */
  readonly network: string;
}

/** The most requests that may be open. */
const OF_ADDRESS_MAX = LIMITS.keyRequests.each;
const OF_NETWORK_MAX = LIMITS.keyRequestsOfNetwork.each;
const IN_ALL_MAX = LIMITS.keyRequests.total;

/** Whether a request was stored, or which limit on open requests refused it. */
export type Asked = 'asked' | 'address_full' | 'network_full' | 'all_full';

/** The condition that a request waits for a person's decision. */
export const WAITS = 'taken_by IS NULL AND decision IS NULL AND ends_at_ms >';

/**
 * Open requests; now is ?1, and a new one ends at ?2. One that ends later than two lifetimes from now comes from a clock
 * that was ahead, and isn't counted. Indexes of the table cover each count.
 */
const OPEN = `FROM codes WHERE asked_from IS NOT NULL AND ${WAITS} ?1 AND ends_at_ms <= ?2 + (?2 - ?1)`;

/** Counts open requests: of address ?3, of all addresses with the prefix ?4, and in all. */
const COUNTS = {
  address: `(SELECT count(*) ${OPEN} AND asked_from = ?3)`,
  network: `(SELECT count(*) ${OPEN} AND asked_from BETWEEN ?4 AND ?4 || '~')`,
  all: `(SELECT count(*) ${OPEN})`,
} as const;

export const HAS_PUT = 'SELECT 1 FROM codes WHERE hash = ?1';

const ASK = `INSERT INTO codes (hash, ends_at_ms, content, user_code_hash, asked_from) SELECT ?5, ?2, ?6, ?7, ?3
WHERE ${COUNTS.address} < ${OF_ADDRESS_MAX} AND ${COUNTS.network} < ${OF_NETWORK_MAX}
AND ${COUNTS.all} < ${IN_ALL_MAX} ON CONFLICT DO NOTHING`;

const COUNT_OPEN = `SELECT ${COUNTS.address} AS address, ${COUNTS.network} AS network`;

/** Requests removed at once. Removing even few blocks a local file's process for some 30 ms, so it is many. */
const ROOM_MADE = 250;

const DIGITS = "'0123456789abcdef'";
/** Returns the expression for the prefix of an address or a network, one level up. */
const above = (text: string) => `rtrim(rtrim(${text}, '.:'), ${DIGITS})`;

/**
 * Makes room if there is none: deletes the oldest of the /16 (IPv4) and /32 (IPv6) that hold most, and within these
 * of the /24 and /48 that do. No /16 or /32 loses its last. Ending them would not suffice: ended ones are kept for an hour,
 * so strangers could fill a disk.
 */
const MAKE_ROOM = `DELETE FROM codes WHERE hash IN (
SELECT hash FROM (
SELECT hash, row_number() OVER (PARTITION BY provider ORDER BY of_network, ends_at_ms DESC) AS of_provider FROM (
SELECT hash, ends_at_ms, ${above('network')} AS provider,
row_number() OVER (PARTITION BY network ORDER BY ends_at_ms DESC) AS of_network FROM (
SELECT hash, ends_at_ms, ${above("replace(asked_from, '::/64', '')")} AS network ${OPEN})))
WHERE of_provider > 1 ORDER BY of_provider DESC
LIMIT iif(${COUNTS.all} >= ${IN_ALL_MAX}, ${ROOM_MADE}, 0)) RETURNING asked_from`;

/** Creates the function that stores a program's request, evicting others if need be. */
export function createAsk(db: Database) {
  return async (asked: AskedCode, nowMs: number): Promise<Asked> => {
    const { hash, userCodeHash, content, endsAtMs, askedFrom, network } = asked;
    const served = { fairnessKey: askedFrom, stranger: true } as const;
    const open = [nowMs, endsAtMs, askedFrom, network];

    const put = () =>
      hasChanged(
        db,
        { sql: ASK, args: [...open, hash, content, userCodeHash], ...served },
        { sql: HAS_PUT, args: [hash], ...served },
      );

    if (await put()) return 'asked';
    const counts = firstOf(await db.read({ sql: COUNT_OPEN, args: open, ...served }));
    if (Number(counts.address) >= OF_ADDRESS_MAX) return 'address_full';
    if (Number(counts.network) >= OF_NETWORK_MAX) return 'network_full';
    const { rows } = await db.write({ sql: MAKE_ROOM, args: [nowMs, endsAtMs], ...served });
    if (rows.some(({ asked_from }) => String(asked_from).startsWith(network))) return 'network_full';
    return (await put()) ? 'asked' : 'all_full';
  };
}
