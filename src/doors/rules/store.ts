// Stores rules and where their issuers' key sets come from (db/README.md, rules). Every write is idempotent.

import type { Origin } from '../../keys/actor.ts';
import { type Database, firstOf, listIn, type Row, textIn } from '../../store/database.ts';
import { LAST_CHANGE, writeAsRead } from '../../store/key-changes.ts';
import { scopesFrom, selected } from '../../store/rows.ts';
import { RULE_MAXIMA, type Rule } from './rule.ts';

/** Where an issuer's key set comes from: the set itself as JSON, or its URL; null: the issuer's metadata names it. */
export type KeySetSource = string | null;

export interface StoredRule extends Rule {
  readonly keySet: KeySetSource;
  /** The owner of its key; null: there is no such key. */
  readonly owner: string | null;
  /** The one server that its key is good for; null: any. */
  readonly resource: string | null;
  /** Why its key is refused; null: it isn't. */
  readonly refused: 'unknown' | 'revoked' | 'expired' | 'blocked' | null;
}

const COLUMNS = ['id', 'key_id', 'hash', 'issuer', 'subject', 'audiences', 'claims', 'scopes'];

// Only the first rule of an issuer brings the key set: with each it could be more than a remote database sends at once.
const LIST = `SELECT ${selected('r', COLUMNS)}, k.user_id, k.resource, CASE
  WHEN k.id IS NULL THEN 'unknown'
  WHEN k.active = 0 THEN 'revoked'
  WHEN k.expires_at_ms < ?1 THEN 'expired'
  WHEN EXISTS (SELECT 1 FROM blocked_owners b WHERE b.owner = k.user_id) THEN 'blocked'
END AS refused,
iif(row_number() OVER (PARTITION BY r.issuer ORDER BY r.row) = 1, i.jwks, NULL) AS jwks
FROM rules r LEFT JOIN issuers i USING (issuer) LEFT JOIN api_keys k ON k.id = r.key_id
WHERE ?2 IS NULL OR r.key_id = ?2 ORDER BY r.row`;

const begins = (text: string, pattern: string) =>
  `substr(${text}, 1, length(${pattern}) - 1) = substr(${pattern}, 1, length(${pattern}) - 1)`;

/** Returns the condition that some subject fits both. A pattern ends with a `*` for at least one character more. */
const haveCommonSubject = (one: string, other: string) => `CASE
  WHEN substr(${one}, -1) = '*' AND substr(${other}, -1) = '*' THEN ${begins(one, other)} OR ${begins(other, one)}
  WHEN substr(${one}, -1) = '*' THEN length(${other}) >= length(${one}) AND ${begins(other, one)}
  WHEN substr(${other}, -1) = '*' THEN length(${one}) >= length(${other}) AND ${begins(one, other)}
  ELSE ${one} = ${other}
END`;

const claimName = (claim: string) => `substr(${claim}, 1, instr(${claim}, '='))`;

/**
 * Returns the condition that a token for one audience could fit the rules of both tables: exactly, but that a default
 * audience counts as common with any other. A token for an audience of each may still fit both, and is refused then.
 */
export const canMeet = (one: string, other: string) => `(${one}.issuer = ${other}.issuer
AND (${one}.audiences = '[]' OR ${other}.audiences = '[]'
  OR EXISTS (SELECT 1 FROM json_each(${one}.audiences) a JOIN json_each(${other}.audiences) b ON a.value = b.value))
AND ${haveCommonSubject(`${one}.subject`, `${other}.subject`)}
AND NOT EXISTS (SELECT 1 FROM json_each(${one}.claims) a JOIN json_each(${other}.claims) b
  ON ${claimName('a.value')} = ${claimName('b.value')} AND a.value <> b.value))`;

/** Finds the rules that a token could fit beside one that was added before. */
const MEETING = `SELECT r.id, o.id AS other, min(o.row) FROM rules r
JOIN rules o ON o.row < r.row AND ${canMeet('o', 'r')} GROUP BY r.row`;

const TRY_AGAIN = 'the key has changed meanwhile: try again';

/** Why the rule of INSERT can't be added, for the operator; NULL: it can. */
const REFUSAL = `coalesce((SELECT 'a token could fit rule ' || r.id || ' of key ' || r.key_id || ' beside this one' FROM rules r
  JOIN (SELECT ?4 AS issuer, ?5 AS subject, ?6 AS audiences, ?7 AS claims) n ON ${canMeet('r', 'n')} ORDER BY r.row LIMIT 1),
CASE WHEN (SELECT count(*) FROM rules) >= ${RULE_MAXIMA.inAll}
  THEN 'there are ${RULE_MAXIMA.inAll} rules, which is the most'
  WHEN (SELECT count(*) FROM rules WHERE key_id = ?2) >= ${RULE_MAXIMA.ofKey}
  THEN 'the key has ${RULE_MAXIMA.ofKey} rules, which is the most'
  WHEN (SELECT count(*) FROM issuers WHERE issuer <> ?4) >= ${RULE_MAXIMA.issuers}
  THEN 'there are rules of ${RULE_MAXIMA.issuers} issuers, which is the most'
  WHEN NOT EXISTS (SELECT 1 FROM api_keys WHERE id = ?2 AND active = 1 AND (expires_at_ms IS NULL OR expires_at_ms >= ?9))
  THEN '${TRY_AGAIN}' END)`;

// Each change of a rule is announced by its hash, so that a late duplicate brings back no rule that was removed.
const INSERT = `INSERT INTO rules (${COLUMNS}, created_at_ms, changed_by)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
WHERE NOT EXISTS (SELECT 1 FROM changes WHERE key_hash = ?3) AND ${REFUSAL} IS NULL ON CONFLICT DO NOTHING`;

const ADDING = `SELECT EXISTS (SELECT 1 FROM rules WHERE id = ?1) AS is_added, ${REFUSAL} AS refusal`;

/** Sets where key sets come from, of the issuer of the rule with hash ?1; unless ?4 is 1, only if none is known yet. */
const setKeySetIf = (more: string) => `INSERT INTO issuers (issuer, jwks) SELECT ?2, ?3
WHERE EXISTS (SELECT 1 FROM rules WHERE hash = ?1) AND ${more}
ON CONFLICT (issuer) DO UPDATE SET jwks = excluded.jwks WHERE ?4 = 1`;
const SET_KEY_SET = setKeySetIf(`${LAST_CHANGE.hash} = ?5`);
/** Sets them in the transaction of an INSERT that has added the rule. */
const ADD_KEY_SET = setKeySetIf('changes() > 0');

const REMOVE = 'UPDATE rules SET deleting = 1, changed_by = ?2 WHERE id = ?1';

export type RuleStore = ReturnType<typeof createRuleStore>;

export function createRuleStore(db: Database) {
  async function list(nowMs: number, keyId: string | null = null, withinMs?: number): Promise<readonly StoredRule[]> {
    const rows = await db.read({ sql: LIST, args: [nowMs, keyId] }, withinMs);
    const keySets = new Map<string, KeySetSource>();
    for (const row of rows.toReversed()) keySets.set(textIn(row, 'issuer'), keySetIn(row)); // last the first of each
    return rows.map((row) => ruleOf(row, keySets.get(textIn(row, 'issuer')) ?? null));
  }

  return {
    list,
    /** Returns the rules that a token could fit beside one that was added before, by their ids; and that one's id. */
    async meeting(): Promise<ReadonlyMap<string, string>> {
      return new Map((await db.read({ sql: MEETING })).map((row) => [textIn(row, 'id'), textIn(row, 'other')]));
    },
    /**
     * Adds a rule if its key is in force, no token could fit another rule beside it, and there is room: the inserting
     * statement itself checks all of that. Returns null, or why it was not added, for the operator. `keySet`: undefined
     * leaves the issuer's as it is.
     */
    async add(
      rule: Rule,
      createdAtMs: number,
      keySet: KeySetSource | undefined,
      origin: Origin,
    ): Promise<string | null> {
      const { id, keyId, hash, issuer, subject, audiences, claims, scopes } = rule;
      const listed = [audiences, claims].map((list) => JSON.stringify(list));
      const args = [id, keyId, hash, issuer, subject, ...listed, scopes && JSON.stringify(scopes), createdAtMs];
      await db.writeAll([
        { sql: INSERT, args: [...args, JSON.stringify(origin)] },
        { sql: ADD_KEY_SET, args: [hash, issuer, keySet ?? null, Number(keySet !== undefined)] },
      ]);
      const row = firstOf(await db.read({ sql: ADDING, args }));
      return row.is_added === 1 ? null : String(row.refusal ?? TRY_AGAIN);
    },
    /** Sets where the key set of a rule's issuer comes from, for all rules of that issuer. */
    async setKeySet({ hash, issuer }: Rule, keySet: KeySetSource): Promise<void> {
      await writeAsRead(db, LAST_CHANGE.hash, { sql: SET_KEY_SET, args: [hash, issuer, keySet, 1] });
    },
    async remove(id: string, origin: Origin): Promise<void> {
      await db.write({ sql: REMOVE, args: [id, JSON.stringify(origin)] });
    },
  };
}

const keySetIn = (row: Row): KeySetSource => (row.jwks === null ? null : textIn(row, 'jwks'));

const ruleOf = (row: Row, keySet: KeySetSource): StoredRule => ({
  id: textIn(row, 'id'),
  keyId: textIn(row, 'key_id'),
  hash: textIn(row, 'hash'),
  issuer: textIn(row, 'issuer'),
  subject: textIn(row, 'subject'),
  audiences: listIn(row.audiences).map(String), // whatever was typed into the database
  claims: listIn(row.claims).map(String),
  scopes: row.scopes === null ? null : scopesFrom(textIn(row, 'scopes')),
  keySet,
  owner: row.user_id === null ? null : textIn(row, 'user_id'),
  resource: row.resource === null ? null : textIn(row, 'resource'),
  refused: row.refused as StoredRule['refused'], // one of LIST's words
});
