-- The whole schema, by subject: keys, the feed, the trail, owners, counts, children, codes, and what servers share. README.md
-- describes the tables and the trail, and what may change later.
--
-- Times are milliseconds since 1970. A secret is stored as its SHA-256 in hex, as `…_hash`. JavaScript holds no integer from
-- 2^53: one typed by hand would be a 500 for its owner's list.
--
-- Triggers announce each change that makes a memory wrong, and write who made it into the trail: no command, older server
-- or shell can forget to. Whoever changes a row names himself in its `changed_by`, as JSON (`how`, `actor`, `requestId`,
-- `address`), which the trigger moves into the trail: at rest it is NULL. A DELETE can't say who makes it, so servers set
-- `deleting` instead, and a trigger deletes the row. Triggers need SQLite 3.38, so that SQL can be typed into the shell of
-- any system: unixepoch('subsec') would need 3.42.

-- Keys ---------------------------------------------------------------------------------------------------------------------
CREATE TABLE api_keys (
  row INTEGER PRIMARY KEY CHECK (row < 9007199254740992), -- grows with insertion: breaks ties of created_at_ms
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,                  -- the owner
  name TEXT NOT NULL,
  scopes TEXT NOT NULL CHECK (json_type(scopes) = 'array'),
  key_hash TEXT NOT NULL UNIQUE,          -- of the secret in force
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  created_at_ms INTEGER NOT NULL CHECK (abs(created_at_ms) < 9007199254740992),
  expires_at_ms INTEGER CHECK (abs(expires_at_ms) < 9007199254740992), -- its last millisecond; NULL: none

  -- During a rotation there are two secrets. A previous one has an end, a next one none.
  second_hash TEXT,
  second_is TEXT CHECK (second_is IN ('next', 'previous')),
  second_ends_at_ms INTEGER
    CHECK (abs(second_ends_at_ms) < 9007199254740992 AND (second_ends_at_ms IS NOT NULL) = (second_is IS 'previous')),
  overlap_ms INTEGER CHECK (abs(overlap_ms) < 9007199254740992), -- of the one in force, from the first use of the next
  rotations INTEGER NOT NULL DEFAULT 0 CHECK (abs(rotations) < 9007199254740992),

  -- Its own limit and quota; NULL: the server's.
  limit_requests INTEGER CHECK (limit_requests BETWEEN 1 AND 1000000000),
  limit_window_s INTEGER
    CHECK (limit_window_s BETWEEN 1 AND 31622400 AND (limit_window_s IS NULL) = (limit_requests IS NULL)),
  quota_requests INTEGER CHECK (quota_requests BETWEEN 1 AND 1000000000),
  quota_period TEXT CHECK (quota_period IN ('day', 'month') AND (quota_period IS NULL) = (quota_requests IS NULL)),

  resource TEXT,                          -- the one server that it is good for; NULL: any
  metadata TEXT CHECK (json_type(metadata) = 'object'),
  foreign_hash TEXT,                      -- of the secret that has another form than ours; a rotation ends it
  last_used_at_ms INTEGER CHECK (abs(last_used_at_ms) < 9007199254740992), -- by key_months that are gone
  changed_by TEXT,
  deleting INTEGER
) STRICT;
CREATE INDEX api_keys_of_user ON api_keys (user_id, created_at_ms DESC, row DESC);
CREATE UNIQUE INDEX api_keys_by_second_hash ON api_keys (second_hash) WHERE second_hash IS NOT NULL;
-- How many keys will soon expire is asked for every minute.
CREATE INDEX api_keys_expiring ON api_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL AND active = 1;
-- Each page of the feed says whether there is a foreign secret.
CREATE INDEX api_keys_foreign ON api_keys (foreign_hash) WHERE foreign_hash IN (key_hash, second_hash);

CREATE TRIGGER api_keys_created AFTER INSERT ON api_keys
BEGIN
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  VALUES (new.id, new.user_id, 'created', new.changed_by, new.key_hash);
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

-- The feed announces both secrets. The fingerprint of an event is that of the secret it is about.
CREATE TRIGGER api_keys_updated
AFTER UPDATE OF id, user_id, name, key_hash, scopes, active, expires_at_ms, second_hash, second_is, second_ends_at_ms,
  overlap_ms, limit_requests, limit_window_s, quota_requests, quota_period, resource, metadata ON api_keys
WHEN (old.id, old.user_id, old.name, old.key_hash, old.scopes, old.active, old.expires_at_ms, old.second_hash,
    old.second_is, old.second_ends_at_ms, old.overlap_ms, old.limit_requests, old.limit_window_s, old.quota_requests,
    old.quota_period, old.resource, old.metadata)
  IS NOT (new.id, new.user_id, new.name, new.key_hash, new.scopes, new.active, new.expires_at_ms, new.second_hash,
    new.second_is, new.second_ends_at_ms, new.overlap_ms, new.limit_requests, new.limit_window_s, new.quota_requests,
    new.quota_period, new.resource, new.metadata)
BEGIN
  INSERT INTO changes (key_hash)
  SELECT hash FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO trail (key_id, owner, kind, changed_by, hash, secret, fields)
  SELECT old.id, old.user_id, kind, new.changed_by,
    CASE
      WHEN kind = 'rotated' AND new.second_is = 'next' THEN new.second_hash
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_hash
      ELSE new.key_hash
    END,
    CASE
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_is
      WHEN kind = 'revoked' AND new.changed_by ->> 'how' = 'possession' THEN 'in_force'
    END,
    CASE WHEN kind = 'changed' THEN (SELECT json_group_array(field) FROM (
      SELECT 'name' AS field, old.name AS was, new.name AS becomes UNION ALL VALUES
      ('scopes', old.scopes, new.scopes), ('expiresAt', old.expires_at_ms, new.expires_at_ms),
      ('rateLimit', old.limit_requests || '/' || old.limit_window_s, new.limit_requests || '/' || new.limit_window_s),
      ('quota', old.quota_requests || '/' || old.quota_period, new.quota_requests || '/' || new.quota_period),
      ('active', old.active, new.active), ('resource', old.resource, new.resource),
      ('metadata', old.metadata, new.metadata)) WHERE was IS NOT becomes) END
  FROM (SELECT CASE
    WHEN old.active = 1 AND new.active = 0 THEN 'revoked'
    WHEN old.rotations < new.rotations THEN 'rotated'
    WHEN old.second_hash = new.key_hash THEN 'first_used'
    WHEN old.active = 1 AND old.second_hash IS NOT NULL AND new.second_hash IS NULL THEN 'revoked'
    ELSE 'changed'
  END AS kind);
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

-- An import that says so of a key that is there: no event, but servers must look for it.
CREATE TRIGGER api_keys_foreign_set AFTER UPDATE OF foreign_hash ON api_keys WHEN old.foreign_hash IS NOT new.foreign_hash
BEGIN
  INSERT INTO changes (key_hash)
  SELECT hash FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
END;

CREATE TRIGGER api_keys_deleting AFTER UPDATE OF deleting ON api_keys WHEN new.deleting IS NOT NULL
BEGIN DELETE FROM api_keys WHERE row = new.row; END;

CREATE TRIGGER api_keys_deleted AFTER DELETE ON api_keys
BEGIN
  INSERT INTO changes (key_hash)
  SELECT hash FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  VALUES (old.id, old.user_id, 'deleted', old.changed_by, old.key_hash);
END;

-- The feed, which every process polls: it forgets what is named there ------------------------------------------------------
-- AUTOINCREMENT: a number is never given twice, even after the newest row is pruned.
CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  key_hash TEXT NOT NULL,                 -- of a secret, or 'owner:' and an owner's name
  changed_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;
-- A creation that reaches the database after the key's deletion must not bring it back.
CREATE INDEX changes_by_key ON changes (key_hash);

-- Whatever its age: services keep the newest as their cursor, and a process that starts after a quiet week must know it.
CREATE TRIGGER changes_newest_kept BEFORE DELETE ON changes WHEN old.seq = (SELECT max(seq) FROM changes)
BEGIN SELECT raise(IGNORE); END;

-- One row: which database this is, and up to which seq changes have been pruned.
CREATE TABLE feed (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  database_id TEXT NOT NULL,
  pruned_seq INTEGER NOT NULL
) STRICT;
INSERT INTO feed (one, database_id, pruned_seq) VALUES (1, lower(hex(randomblob(16))), 0);

-- The trail: a row for each change -----------------------------------------------------------------------------------------
-- Each creation writes one page for it, in 10 % of its time. AUTOINCREMENT would be another page, and so would more indexes:
-- who reads all events has time for a scan, and the newest is never removed, so that its number is not given again.
CREATE TABLE key_events (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  key_id TEXT,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  how TEXT NOT NULL,                      -- 'sql': nobody has named himself
  actor TEXT,
  request_id TEXT, address TEXT,
  by_admin INTEGER CHECK (by_admin = 1),  -- to a team, its members and an admin look alike
  fingerprint TEXT,
  secret TEXT,
  fields TEXT,
  client TEXT, workload TEXT,
  backup_seq INTEGER
) STRICT;
CREATE INDEX key_events_of_key ON key_events (key_id, owner, seq) WHERE key_id IS NOT NULL;
CREATE INDEX key_events_of_owner ON key_events (owner, seq) WHERE key_id IS NULL;

-- Triggers insert into this view, which reads what a row's `changed_by` says.
CREATE VIEW trail (key_id, owner, kind, changed_by, hash, secret, fields)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;

CREATE TRIGGER trail_inserted INSTEAD OF INSERT ON trail
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, by_admin, client, fingerprint, secret, fields)
  VALUES (new.key_id, new.owner, new.kind, coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.changed_by ->> 'byAdmin',
    new.changed_by ->> 'client', substr(new.hash, 1, 12), new.secret, new.fields);
END;

-- Owners -------------------------------------------------------------------------------------------------------------------
-- Apart from their settings, because a block outlives the removal of its owner. A restore adds blocks, and lifts none.
CREATE TABLE blocked_owners (
  owner TEXT PRIMARY KEY,
  blocked_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  changed_by TEXT,
  deleting INTEGER
) STRICT;

CREATE TRIGGER blocked_owners_blocked AFTER INSERT ON blocked_owners
BEGIN
  INSERT INTO changes (key_hash) VALUES ('owner:' || new.owner);
  INSERT INTO trail (owner, kind, changed_by) VALUES (new.owner, 'blocked', new.changed_by);
  UPDATE blocked_owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
END;

CREATE TRIGGER blocked_owners_deleting AFTER UPDATE OF deleting ON blocked_owners WHEN new.deleting IS NOT NULL
BEGIN DELETE FROM blocked_owners WHERE owner = new.owner; END;

CREATE TRIGGER blocked_owners_unblocked AFTER DELETE ON blocked_owners
BEGIN
  INSERT INTO changes (key_hash) VALUES ('owner:' || old.owner);
  INSERT INTO trail (owner, kind, changed_by) VALUES (old.owner, 'unblocked', old.changed_by);
END;

CREATE TRIGGER blocked_owners_renamed BEFORE UPDATE OF owner ON blocked_owners WHEN old.owner IS NOT new.owner
BEGIN SELECT raise(ABORT, 'a blocked owner is not renamed: delete and insert'); END;

-- What an operator has set for all keys of an owner together; NULL: the server's. An owner without any has no row. The time
-- of a change comes with it.
CREATE TABLE owners (
  owner TEXT PRIMARY KEY,
  limit_requests INTEGER CHECK (limit_requests BETWEEN 1 AND 1000000000),
  limit_window_s INTEGER
    CHECK (limit_window_s BETWEEN 10 AND 31622400 AND (limit_window_s IS NULL) = (limit_requests IS NULL)),
  quota_requests INTEGER CHECK (quota_requests BETWEEN 1 AND 1000000000),
  quota_period TEXT CHECK (quota_period IN ('day', 'month') AND (quota_period IS NULL) = (quota_requests IS NULL)),
  keys_max INTEGER CHECK (keys_max BETWEEN 0 AND 10000),
  metadata TEXT CHECK (json_type(metadata) = 'object'),
  changed_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  changed_by TEXT,
  deleting INTEGER
) STRICT;

CREATE TRIGGER owners_made AFTER INSERT ON owners WHEN new.deleting IS NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO trail (owner, kind, changed_by, fields)
  SELECT new.owner, 'owner_changed', new.changed_by, (SELECT json_group_array(field) FROM (
    SELECT 'rateLimit' AS field, new.limit_requests AS setting UNION ALL VALUES
    ('quota', new.quota_requests), ('keysMax', new.keys_max), ('metadata', new.metadata)) WHERE setting IS NOT NULL);
  UPDATE owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
END;

CREATE TRIGGER owners_updated
AFTER UPDATE OF limit_requests, limit_window_s, quota_requests, quota_period, keys_max, metadata ON owners
WHEN (old.limit_requests, old.limit_window_s, old.quota_requests, old.quota_period, old.keys_max, old.metadata)
  IS NOT (new.limit_requests, new.limit_window_s, new.quota_requests, new.quota_period, new.keys_max, new.metadata)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO trail (owner, kind, changed_by, fields)
  SELECT new.owner, 'owner_changed', new.changed_by, (SELECT json_group_array(field) FROM (
    SELECT 'rateLimit' AS field, old.limit_requests || '/' || old.limit_window_s AS was,
      new.limit_requests || '/' || new.limit_window_s AS becomes UNION ALL VALUES
    ('quota', old.quota_requests || '/' || old.quota_period, new.quota_requests || '/' || new.quota_period),
    ('keysMax', old.keys_max, new.keys_max), ('metadata', old.metadata, new.metadata)) WHERE was IS NOT becomes);
  UPDATE owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
  DELETE FROM owners WHERE owner = new.owner AND coalesce(limit_requests, quota_requests, keys_max, metadata) IS NULL;
END;

-- An owner leaves, with settings, counts and children, whether or not there is a row: it is inserted to be deleted. His keys
-- were removed before, with which the children have ended.
CREATE TRIGGER owners_leaving_without_row AFTER INSERT ON owners WHEN new.deleting IS NOT NULL
BEGIN UPDATE owners SET deleting = new.deleting WHERE owner = new.owner; END;

CREATE TRIGGER owners_leaving AFTER UPDATE OF deleting ON owners WHEN new.deleting IS NOT NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO trail (owner, kind, changed_by) VALUES (new.owner, 'owner_deleted', new.changed_by);
  DELETE FROM holders WHERE owner = new.owner;
  UPDATE children SET changed_by = 'upkeep' WHERE owner = new.owner;
  DELETE FROM children WHERE owner = new.owner;
  DELETE FROM owners WHERE owner = new.owner;
END;

-- A row that was emptied first, or has left, has its event already.
CREATE TRIGGER owners_deleted AFTER DELETE ON owners
WHEN old.deleting IS NULL AND coalesce(old.limit_requests, old.quota_requests, old.keys_max, old.metadata) IS NOT NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || old.owner, old.changed_at_ms);
  INSERT INTO trail (owner, kind, fields) VALUES (old.owner, 'owner_changed', '["rateLimit","quota","keysMax","metadata"]');
END;

CREATE TRIGGER owners_renamed BEFORE UPDATE OF owner ON owners WHEN old.owner IS NOT new.owner
BEGIN SELECT raise(ABORT, 'an owner is not renamed: delete and insert'); END;

-- Counts of uses, to which all processes add -------------------------------------------------------------------------------
-- Owners whose calls are counted. In both tables below an owner is this row's number below zero, where no key can be.
CREATE TABLE holders (row INTEGER PRIMARY KEY, owner TEXT NOT NULL UNIQUE) STRICT;

-- Units that a holder has used in a window, but for days.
CREATE TABLE key_counts (
  row INTEGER NOT NULL,                   -- of api_keys; below zero of holders
  window_s INTEGER NOT NULL,              -- its length
  number INTEGER NOT NULL,                -- of windows since 1970
  uses INTEGER NOT NULL,
  PRIMARY KEY (row, window_s, number)
) STRICT, WITHOUT ROWID;

-- What a holder had in windows before is of no use, so it has few rows however short the window is. One more stays: clocks
-- disagree.
CREATE TRIGGER key_counts_replaced AFTER INSERT ON key_counts
BEGIN DELETE FROM key_counts WHERE row = new.row AND window_s = new.window_s AND number < new.number - 1; END;

-- Units of each UTC day, of every key and of holders: a row for a month, with a column for each day. Who reads the days of a
-- month reads one row, and a list shows them of each key. The row also says when its key was last used.
CREATE TABLE key_months (
  row INTEGER NOT NULL,                   -- as in key_counts
  month INTEGER NOT NULL,                 -- 12 for each year, and 1 for each month before it in the year
  d1 INTEGER NOT NULL DEFAULT 0, d2 INTEGER NOT NULL DEFAULT 0, d3 INTEGER NOT NULL DEFAULT 0, d4 INTEGER NOT NULL DEFAULT 0,
  d5 INTEGER NOT NULL DEFAULT 0, d6 INTEGER NOT NULL DEFAULT 0, d7 INTEGER NOT NULL DEFAULT 0, d8 INTEGER NOT NULL DEFAULT 0,
  d9 INTEGER NOT NULL DEFAULT 0, d10 INTEGER NOT NULL DEFAULT 0, d11 INTEGER NOT NULL DEFAULT 0, d12 INTEGER NOT NULL DEFAULT 0,
  d13 INTEGER NOT NULL DEFAULT 0, d14 INTEGER NOT NULL DEFAULT 0, d15 INTEGER NOT NULL DEFAULT 0, d16 INTEGER NOT NULL DEFAULT 0,
  d17 INTEGER NOT NULL DEFAULT 0, d18 INTEGER NOT NULL DEFAULT 0, d19 INTEGER NOT NULL DEFAULT 0, d20 INTEGER NOT NULL DEFAULT 0,
  d21 INTEGER NOT NULL DEFAULT 0, d22 INTEGER NOT NULL DEFAULT 0, d23 INTEGER NOT NULL DEFAULT 0, d24 INTEGER NOT NULL DEFAULT 0,
  d25 INTEGER NOT NULL DEFAULT 0, d26 INTEGER NOT NULL DEFAULT 0, d27 INTEGER NOT NULL DEFAULT 0, d28 INTEGER NOT NULL DEFAULT 0,
  d29 INTEGER NOT NULL DEFAULT 0, d30 INTEGER NOT NULL DEFAULT 0, d31 INTEGER NOT NULL DEFAULT 0,
  last_used_at_ms INTEGER CHECK (abs(last_used_at_ms) < 9007199254740992),
  PRIMARY KEY (row, month)
) STRICT, WITHOUT ROWID;

-- Months go after a while, whoever removes them; the last use of a key stays.
CREATE TRIGGER key_months_removed AFTER DELETE ON key_months WHEN old.last_used_at_ms IS NOT NULL
BEGIN
  UPDATE api_keys SET last_used_at_ms = old.last_used_at_ms
  WHERE row = old.row AND coalesce(last_used_at_ms, 0) < old.last_used_at_ms;
END;

-- The row of the newest key, once deleted, is given to the next one; so is the number of the newest holder.
CREATE TRIGGER key_counts_deleted AFTER DELETE ON api_keys
BEGIN
  DELETE FROM key_counts WHERE row = old.row;
  DELETE FROM key_months WHERE row = old.row;
END;

CREATE TRIGGER holders_deleted AFTER DELETE ON holders
BEGIN
  DELETE FROM key_counts WHERE row = -old.row;
  DELETE FROM key_months WHERE row = -old.row;
END;

-- Processes add in exchanges that have numbers: one that is sent twice, or late, adds nothing.
CREATE TABLE exchanges (
  instance TEXT PRIMARY KEY,              -- a process, by a random text
  number INTEGER NOT NULL,                -- of its last exchange
  at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT, WITHOUT ROWID;

-- Children: keys that keys with the scope `delegate` have made, and with which they end (src/doors/children/) --------------
CREATE TABLE children (
  row INTEGER PRIMARY KEY AUTOINCREMENT,  -- no number is used twice: replicas read those after the last
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  key_hash TEXT NOT NULL UNIQUE,
  parent_id TEXT NOT NULL,
  parent_hash TEXT NOT NULL,              -- of the parent's secret that made it, with which it ends
  name TEXT NOT NULL,
  scopes TEXT NOT NULL CHECK (json_type(scopes) = 'array'),
  resource TEXT,
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
  expires_at_ms INTEGER NOT NULL CHECK (expires_at_ms BETWEEN 0 AND 9007199254740991),
  ended_at_ms INTEGER CHECK (ended_at_ms BETWEEN 0 AND 9007199254740991),
  changed_by TEXT                         -- also 'upkeep': it is old, and its removal concerns nobody
) STRICT;
CREATE INDEX children_of_parent ON children (parent_id, expires_at_ms) WHERE ended_at_ms IS NULL;
CREATE INDEX children_of_owner ON children (owner, expires_at_ms) WHERE ended_at_ms IS NULL;
CREATE INDEX children_by_expiry ON children (expires_at_ms);
CREATE INDEX children_by_end ON children (ended_at_ms) WHERE ended_at_ms IS NOT NULL;

CREATE TRIGGER children_inserted AFTER INSERT ON children
BEGIN
  INSERT INTO trail (key_id, owner, kind, changed_by, hash) VALUES (new.parent_id, new.owner, 'delegated',
    json_set(coalesce(new.changed_by, '{}'), '$.actor', new.id), new.key_hash);
  UPDATE children SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

-- A child that changes alone is announced; a change of its parent is, once, as of any key. The times are the row's own.
CREATE TRIGGER children_updated
AFTER UPDATE OF id, owner, key_hash, parent_id, parent_hash, name, scopes, resource, created_at_ms, expires_at_ms,
  ended_at_ms ON children
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, coalesce(new.ended_at_ms, new.expires_at_ms));
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  SELECT old.parent_id, old.owner, 'child_ended', new.changed_by, old.key_hash
  WHERE old.ended_at_ms IS NULL AND new.ended_at_ms IS NOT NULL;
  UPDATE children SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

CREATE TRIGGER children_deleted AFTER DELETE ON children WHEN old.changed_by IS NOT 'upkeep'
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, old.expires_at_ms);
  INSERT INTO trail (key_id, owner, kind, hash)
  SELECT old.parent_id, old.owner, 'child_ended', old.key_hash WHERE old.ended_at_ms IS NULL;
END;

-- Codes: what a client redeems for a key, and requests of devices ----------------------------------------------------------
-- A code is taken once, and then stands for nothing any more. `taken_by` tells the request that took it from others, if
-- it has to ask whether it was the one.
CREATE TABLE codes (
  hash TEXT PRIMARY KEY,                  -- of the code
  ends_at_ms INTEGER NOT NULL,
  content TEXT NOT NULL,                  -- what it stands for
  user_code_hash TEXT UNIQUE,             -- of a device's request: what the person types
  asked_from TEXT,                        -- as above: the network that asked
  decision TEXT,                          -- as above: what the person has decided
  owner TEXT,                             -- whose key it makes; NULL: a pasted one, or nobody has decided
  taken_by TEXT,
  key_id TEXT, fingerprint TEXT,          -- what was handed out
  changed_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX codes_by_end ON codes (ends_at_ms);
CREATE INDEX codes_of_owner ON codes (owner) WHERE owner IS NOT NULL;
-- Count the open requests of an address, of a network (a range), and of all, without reading their rows. The last two
-- columns are NULL in all rows; with them an index has all that a count looks at.
CREATE INDEX codes_open_from ON codes (asked_from, ends_at_ms, taken_by, decision)
WHERE asked_from IS NOT NULL AND taken_by IS NULL AND decision IS NULL;
CREATE INDEX codes_open ON codes (ends_at_ms, asked_from, taken_by, decision)
WHERE asked_from IS NOT NULL AND taken_by IS NULL AND decision IS NULL;

-- A key that is handed to a client leaves an event; a device has made its own.
CREATE TRIGGER codes_taken AFTER UPDATE OF taken_by ON codes WHEN old.taken_by IS NULL AND new.changed_by IS NOT NULL
BEGIN
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  SELECT k.id, k.user_id, 'connected', new.changed_by, new.fingerprint FROM api_keys k WHERE k.id = new.key_id;
  UPDATE codes SET changed_by = NULL WHERE hash = new.hash AND changed_by IS NOT NULL;
END;

-- What servers share -------------------------------------------------------------------------------------------------------
-- `request_state` signs what MCP clients carry from one call to the next, `client_id` the registrations of OAuth clients,
-- which nobody stores: while it is the same, they are good.
CREATE TABLE server_secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO server_secrets (name, value)
VALUES ('request_state', lower(hex(randomblob(32)))), ('client_id', lower(hex(randomblob(32))));

-- Work that one process does for all: it takes its turn by raising `at_ms`, when the last run began.
CREATE TABLE upkeep (task TEXT PRIMARY KEY, at_ms INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO upkeep (task) VALUES ('records'), ('counts');
