-- Secrets of another form, which `keys import` adds by their hash. Rotation gives a key one of our form, so it is a secret
-- that is foreign. Each page of the feed says whether there is one (src/store/feed.ts), by the index.
--
-- Only adds: servers of the version before don't look texts of another form up.

ALTER TABLE api_keys ADD COLUMN foreign_hash TEXT;

CREATE INDEX api_keys_foreign ON api_keys (foreign_hash) WHERE foreign_hash IN (key_hash, second_hash);

CREATE TRIGGER api_keys_foreign_set AFTER UPDATE OF foreign_hash ON api_keys
WHEN old.foreign_hash IS NOT new.foreign_hash
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
END;
