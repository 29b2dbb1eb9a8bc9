// The SQL of the key store. Every write is harmless when it is sent twice.

import { INSTANCES } from '../uses/store.ts';

/** The number of the newest change; with `feed f`. */
const NEWEST_SEQ = 'max(f.pruned_seq, coalesce((SELECT max(seq) FROM changes), 0))';

/** The row of the key that has a secret of this hash: two searches of an index, the second one only if the first fails. */
const rowBy = (hash: string) =>
  `coalesce((SELECT row FROM api_keys WHERE key_hash = ${hash}), (SELECT row FROM api_keys WHERE second_hash = ${hash}))`;

/** Of the owner of the key `k`. */
export const IS_BLOCKED = 'EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id) AS blocked';

/** A number that was typed by hand may be beyond what JavaScript holds exactly; the driver would throw. */
export const held = (column: string) => `max(min(${column}, ${Number.MAX_SAFE_INTEGER}), ${Number.MIN_SAFE_INTEGER})`;

// During a rolling upgrade servers of the first version still write api_keys.last_used_at_ms: the later value counts.
export const USED_AT = held(
  'max(coalesce(u.last_used_at_ms, k.last_used_at_ms), coalesce(k.last_used_at_ms, u.last_used_at_ms))',
);

const heldColumn = (column: string) => `${held(`k.${column}`)} AS ${column}`;

/** The columns of the key `k`. To sort by one, name it with its table: `ORDER BY k.created_at_ms` uses an index. */
export const KEY_COLUMNS = [
  'k.row, k.id, k.user_id, k.name, k.key_hash, k.scopes, k.active, k.second_hash, k.second_is',
  'k.limit_requests, k.limit_window_s, k.quota_requests, k.quota_period',
  ...['created_at_ms', 'expires_at_ms', 'second_ends_at_ms', 'rotations'].map(heldColumn),
].join(', ');

/** What a process counts as: another one each day, so that what is days old can be summed while it goes on (counts.ts). */
const onDay = (instance: string, day: string) => `${instance} + ${day} * ${INSTANCES}`;

// ?2: the process that asks, ?3: the second, ?4: the window of keys without one, ?5: the first day of the month, ?6: the day.
// CAST, because drivers may send a whole number as a fraction.
const WINDOW_S = 'coalesce(k.limit_window_s, ?4)';
const OWN = onDay('?2', '?6');
const COUNTS = `(SELECT json_array(sum(uses) FILTER (WHERE instance = ${OWN}), sum(uses) FILTER (WHERE instance <> ${OWN}))
FROM key_counts c WHERE c.row = k.row AND c.window_s = ${WINDOW_S} AND c.number = CAST(?3 / ${WINDOW_S} AS INTEGER)) AS window_counts,
(SELECT json_array(sum(uses) FILTER (WHERE number = ?6 AND instance = ${OWN}),
sum(uses) FILTER (WHERE number = ?6 AND instance <> ${OWN}), sum(uses) FILTER (WHERE number < ?6))
FROM key_counts c WHERE c.row = k.row AND c.window_s = 86400 AND c.number BETWEEN ?5 AND ?6) AS day_counts`;

export const FIND = `SELECT f.database_id, ${NEWEST_SEQ} AS newest_seq, ?1 AS presented_hash, ${IS_BLOCKED}, ${KEY_COLUMNS}, ${COUNTS} FROM feed f
LEFT JOIN api_keys k ON k.row = ${rowBy('?1')}`;

export const FIND_ALL = `SELECT f.database_id, ${NEWEST_SEQ} AS newest_seq, h.value AS presented_hash, ${IS_BLOCKED}, ${KEY_COLUMNS}, ${COUNTS} FROM feed f
LEFT JOIN json_each(?1) h LEFT JOIN api_keys k ON k.row = ${rowBy('h.value')}`;

// A timed-out INSERT may still run after its retry succeeded, even after the key was deleted. Without RETURNING, which
// would take a fourteenth of its time.
export const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, expires_at_ms, changed_by,
limit_requests, limit_window_s, quota_requests, quota_period)
SELECT ?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?9, ?10, ?11, ?12, ?13
WHERE (SELECT count(*) FROM api_keys WHERE user_id = ?2) < ?8
AND NOT EXISTS (SELECT 1 FROM changes WHERE key_hash = ?4)
ON CONFLICT DO NOTHING`;

export const DEACTIVATE = `UPDATE api_keys SET active = 0, changed_by = ?3
WHERE id = ?1 AND user_id = ?2 AND active = 1 RETURNING key_hash`;

// A trigger deletes the row: a DELETE could not say who makes it.
export const REMOVE =
  'UPDATE api_keys SET deleting = 1, changed_by = ?3 WHERE id = ?1 AND user_id = ?2 RETURNING key_hash';

export const UPDATE = `UPDATE api_keys SET name = coalesce(?3, name), scopes = coalesce(?4, scopes), changed_by = ?5
WHERE id = ?1 AND user_id = ?2 AND (name, scopes) IS NOT (coalesce(?3, name), coalesce(?4, scopes)) RETURNING key_hash`;

// A rotation changes only what it has read: a late duplicate does nothing, nor does one that another has overtaken.
const ROTATED = 'rotations = rotations + 1, changed_by = ?7, expires_at_ms = coalesce(?8, expires_at_ms)';
const ROTATABLE =
  'id = ?1 AND user_id = ?2 AND rotations = ?3 AND active = 1 AND (expires_at_ms IS NULL OR expires_at_ms >= ?6)';

export const ROTATE = `UPDATE api_keys
SET second_hash = ?4, second_is = 'next', second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE} AND (second_is IS NOT 'previous' OR second_ends_at_ms < ?6) RETURNING id`;

export const ROTATE_AT_ONCE = `UPDATE api_keys
SET key_hash = ?4, second_hash = NULL, second_is = NULL, second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE} RETURNING id`;

export const REVOKE_BY_HASHES = `UPDATE api_keys SET active = NOT given.whole, changed_by = ?3,
second_hash = iif(given.whole, second_hash, NULL),
second_is = iif(given.whole, second_is, NULL),
second_ends_at_ms = iif(given.whole, second_ends_at_ms, NULL)
FROM (SELECT k.row AS given_row, max(k.key_hash = h.value) AS whole
FROM json_each(?1) h JOIN api_keys k ON k.row = ${rowBy('h.value')}
WHERE k.key_hash = h.value OR k.second_is = 'next' OR k.second_ends_at_ms >= ?2 GROUP BY k.row) AS given
WHERE row = given_row AND active = 1`;

export const FIND_OWN = `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE id = ?1 AND user_id = ?2`;

export const HAS_SECRET = 'SELECT 1 FROM api_keys WHERE id = ?1 AND (key_hash = ?2 OR second_hash = ?2)';

export const PROMOTE = `UPDATE api_keys SET key_hash = second_hash, second_hash = key_hash, second_is = 'previous',
second_ends_at_ms = ?4 + coalesce(overlap_ms, 0), changed_by = ?5
WHERE id = ?1 AND second_hash = ?2 AND second_is = 'next' AND rotations = ?3 AND active = 1 RETURNING key_hash`;

/** What a listed key has as JSON at least, beside its name and scopes. */
const LISTED_KEY_BYTES_MIN = 120;

const AFTER = 'k.user_id = ?1 AND (k.created_at_ms, k.row) < (?2, ?3)';
const NEWEST_FIRST = 'ORDER BY k.created_at_ms DESC, k.row DESC';

// As many as begin within the bytes, by a running sum.
export const LIST = `SELECT ${KEY_COLUMNS}, ${USED_AT} AS used_at_ms,
(SELECT count(*) FROM api_keys k WHERE ${AFTER}) AS remaining
FROM api_keys k LEFT JOIN key_uses u USING (row) WHERE ${AFTER} ${NEWEST_FIRST} LIMIT (SELECT count(*) FROM (
SELECT sum(bytes) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (
SELECT octet_length(name) + octet_length(scopes) + ${LISTED_KEY_BYTES_MIN} AS bytes FROM api_keys k
WHERE ${AFTER} ${NEWEST_FIRST})) WHERE before IS NULL OR before < ?4)`;

// A key deleted meanwhile gets no row, and a later time from another process stays. CROSS JOIN fixes the order: each
// use looks up its key, rather than each key its use.
export const RECORD_USE = `INSERT INTO key_uses (row, last_used_at_ms)
SELECT k.row, use.value ->> 1 FROM json_each(?1) AS use CROSS JOIN api_keys k WHERE k.id = use.value ->> 0
ON CONFLICT (row) DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms WHERE last_used_at_ms < excluded.last_used_at_ms`;

export const RECORD_COUNTS = `INSERT INTO key_counts (row, window_s, number, instance, uses)
SELECT k.row, c.value ->> 1, c.value ->> 2, ${onDay('?2', '(c.value ->> 3)')}, c.value ->> 4
FROM json_each(?1) AS c CROSS JOIN api_keys k WHERE k.id = c.value ->> 0
ON CONFLICT (row, window_s, number, instance) DO UPDATE SET uses = excluded.uses WHERE uses < excluded.uses`;

const OWN_OF_WINDOW = onDay('?2', '(w.value ->> 3)');
export const COUNTS_OF = `SELECT w.key AS at,
(SELECT json_array(sum(uses) FILTER (WHERE instance = ${OWN_OF_WINDOW}), sum(uses) FILTER (WHERE instance <> ${OWN_OF_WINDOW}))
FROM key_counts c WHERE c.row = k.row AND c.window_s = w.value ->> 1 AND c.number = w.value ->> 2) AS counts,
(SELECT sum(uses) FROM key_counts c WHERE c.row = k.row AND c.window_s = 86400
AND c.number >= w.value ->> 4 AND c.number < w.value ->> 2) AS before
FROM json_each(?1) AS w CROSS JOIN api_keys k WHERE k.id = w.value ->> 0`;

// By key, its days. One key after the other, in the order of the table: sorted all together they would take twice as long.
export const USES_BY_DAY = `SELECT k.id, (SELECT json_group_array(json_array(number, uses, own)) FROM (
SELECT number, sum(uses) AS uses,
coalesce(sum(uses) FILTER (WHERE instance = ${onDay('?3', 'number')}), 0) AS own FROM key_counts
WHERE row = k.row AND window_s = 86400 AND number >= ?2 GROUP BY number)) AS days
FROM json_each(?1) AS i CROSS JOIN api_keys k WHERE k.id = i.value`;

export const NEWEST_EVENTS = `SELECT * FROM key_events WHERE seq > ?1 AND (?2 IS NULL OR key_id = ?2) AND (?3 IS NULL OR owner = ?3)
ORDER BY seq DESC LIMIT ?4`;

export const EVENTS_AFTER = NEWEST_EVENTS.replace('DESC', 'ASC');
