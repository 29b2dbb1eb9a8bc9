-- Rotation: a key may have a second secret. Events: every change leaves a row that says who made it, and how. Beside
-- them, owners whose keys are blocked, and secrets that all servers share.
--
-- Only adds: servers of the version before run on, and what they change appears as changed by SQL. Nothing here needs
-- more than SQLite 3.38, so that SQL can be typed into the shell of any system; unixepoch('subsec') would need 3.42.

ALTER TABLE api_keys ADD COLUMN second_hash TEXT;

ALTER TABLE api_keys ADD COLUMN second_is TEXT CHECK (second_is IN ('next', 'previous'));

-- A previous secret has an end, a next one has none.
ALTER TABLE api_keys ADD COLUMN second_ends_at_ms INTEGER
  CHECK ((second_ends_at_ms IS NOT NULL) = (second_is IS 'previous'));

ALTER TABLE api_keys ADD COLUMN overlap_ms INTEGER;

ALTER TABLE api_keys ADD COLUMN rotations INTEGER NOT NULL DEFAULT 0;

-- Who makes the change under way, and how, as JSON. Triggers move it into key_events: at rest it is always NULL.
ALTER TABLE api_keys ADD COLUMN changed_by TEXT;

-- Set together with changed_by by whoever deletes the key, in place of a DELETE, which could not say who it is.
ALTER TABLE api_keys ADD COLUMN deleting INTEGER;

CREATE UNIQUE INDEX api_keys_by_second_hash ON api_keys (second_hash) WHERE second_hash IS NOT NULL;

-- Each creation writes one page for it, in 10 % of its time. An index would be another page, and so would AUTOINCREMENT:
-- who reads events has time for a scan, and the newest event is never removed, so that its number is not given again.
CREATE TABLE key_events (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  key_id TEXT,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  how TEXT NOT NULL,
  actor TEXT,
  request_id TEXT,
  address TEXT,
  fingerprint TEXT,
  secret TEXT
) STRICT;

CREATE TRIGGER api_keys_created AFTER INSERT ON api_keys
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  VALUES (new.id, new.user_id, 'created', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', substr(new.key_hash, 1, 12));
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

DROP TRIGGER api_keys_updated;

-- The feed announces both secrets. The fingerprint of an event is that of the secret it is about.
CREATE TRIGGER api_keys_updated
AFTER UPDATE OF id, user_id, name, key_hash, scopes, active, expires_at_ms, second_hash, second_is, second_ends_at_ms,
  overlap_ms ON api_keys
WHEN (old.id, old.user_id, old.name, old.key_hash, old.scopes, old.active, old.expires_at_ms, old.second_hash,
    old.second_is, old.second_ends_at_ms, old.overlap_ms)
  IS NOT (new.id, new.user_id, new.name, new.key_hash, new.scopes, new.active, new.expires_at_ms, new.second_hash,
    new.second_is, new.second_ends_at_ms, new.overlap_ms)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint, secret)
  SELECT old.id, old.user_id, kind, coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address',
    substr(CASE
      WHEN kind = 'rotated' AND new.second_is = 'next' THEN new.second_hash
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_hash
      ELSE new.key_hash
    END, 1, 12),
    CASE
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_is
      WHEN kind = 'revoked' AND new.changed_by ->> 'how' = 'possession' THEN 'in_force'
    END
  FROM (SELECT CASE
    WHEN old.active = 1 AND new.active = 0 THEN 'revoked'
    WHEN old.rotations < new.rotations THEN 'rotated'
    WHEN old.second_hash = new.key_hash THEN 'first_used'
    WHEN old.active = 1 AND old.second_hash IS NOT NULL AND new.second_hash IS NULL THEN 'revoked'
    ELSE 'changed'
  END AS kind);
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

CREATE TRIGGER api_keys_deleting AFTER UPDATE OF deleting ON api_keys WHEN new.deleting IS NOT NULL
BEGIN
  DELETE FROM api_keys WHERE row = new.row;
END;

DROP TRIGGER api_keys_deleted;

CREATE TRIGGER api_keys_deleted AFTER DELETE ON api_keys
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  VALUES (old.id, old.user_id, 'deleted', coalesce(old.changed_by ->> 'how', 'sql'), old.changed_by ->> 'actor',
    old.changed_by ->> 'requestId', old.changed_by ->> 'address', substr(old.key_hash, 1, 12));
END;

CREATE TABLE blocked_owners (
  owner TEXT PRIMARY KEY,
  blocked_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  changed_by TEXT,                        -- as in api_keys
  deleting INTEGER
) STRICT;

-- The feed announces an owner as 'owner:' and the name, which is no hash: servers that know no owners pass over it.
CREATE TRIGGER blocked_owners_blocked AFTER INSERT ON blocked_owners
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  VALUES ('owner:' || new.owner, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER));
  INSERT INTO key_events (owner, kind, how, actor, request_id, address)
  VALUES (new.owner, 'blocked', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address');
  UPDATE blocked_owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
END;

CREATE TRIGGER blocked_owners_deleting AFTER UPDATE OF deleting ON blocked_owners WHEN new.deleting IS NOT NULL
BEGIN
  DELETE FROM blocked_owners WHERE owner = new.owner;
END;

CREATE TRIGGER blocked_owners_unblocked AFTER DELETE ON blocked_owners
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  VALUES ('owner:' || old.owner, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER));
  INSERT INTO key_events (owner, kind, how, actor, request_id, address)
  VALUES (old.owner, 'unblocked', coalesce(old.changed_by ->> 'how', 'sql'), old.changed_by ->> 'actor',
    old.changed_by ->> 'requestId', old.changed_by ->> 'address');
END;

CREATE TRIGGER blocked_owners_renamed BEFORE UPDATE OF owner ON blocked_owners WHEN old.owner IS NOT new.owner
BEGIN
  SELECT raise(ABORT, 'a blocked owner is not renamed: delete and insert');
END;

-- Secrets of the servers, not of keys. request_state signs what MCP clients carry from one call to the next.
CREATE TABLE server_secrets (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

INSERT INTO server_secrets (name, value) VALUES ('request_state', lower(hex(randomblob(32))));
