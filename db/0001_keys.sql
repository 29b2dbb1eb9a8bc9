-- Keys, and the feed by which every process learns of changes that make a cached key wrong.

CREATE TABLE api_keys (
  row INTEGER PRIMARY KEY,                -- grows with insertion: breaks ties of created_at_ms
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  name TEXT NOT NULL,
  key_hash TEXT NOT NULL UNIQUE,
  scopes TEXT NOT NULL CHECK (json_type(scopes) = 'array'),
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER,
  last_used_at_ms INTEGER
) STRICT;

CREATE INDEX api_keys_of_user ON api_keys (user_id, created_at_ms DESC, row DESC);

-- AUTOINCREMENT: a number is never given twice, even after the newest row is pruned.
CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  key_hash TEXT NOT NULL,
  changed_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX changes_by_age ON changes (changed_at_ms);

-- One row: which database this is, and up to which seq changes have been pruned.
CREATE TABLE feed (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  database_id TEXT NOT NULL,
  pruned_seq INTEGER NOT NULL
) STRICT;

INSERT INTO feed (one, database_id, pruned_seq) VALUES (1, lower(hex(randomblob(16))), 0);

CREATE TRIGGER api_keys_updated
AFTER UPDATE OF active, scopes, name, expires_at_ms, key_hash, user_id ON api_keys
WHEN old.active IS NOT new.active OR old.scopes IS NOT new.scopes OR old.name IS NOT new.name
  OR old.expires_at_ms IS NOT new.expires_at_ms OR old.key_hash IS NOT new.key_hash OR old.user_id IS NOT new.user_id
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;

CREATE TRIGGER api_keys_deleted AFTER DELETE ON api_keys
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, CAST(unixepoch('subsec') * 1000 AS INTEGER));
END;
