-- A row of counts says when its key was last used, too: the day's count and the last use are one written row. And a
-- holder of counts may be an owner, whose keys are then counted together.
--
-- Only adds, and copies nothing: servers of the version before count into the very rows that these servers use, so a
-- rolling upgrade loses no use. Their last uses stand in key_uses; the later one counts.

ALTER TABLE key_counts ADD COLUMN last_used_at_ms INTEGER;

-- Owners whose calls are counted. In key_counts an owner is this row's number below zero, where no key can be.
CREATE TABLE holders (
  row INTEGER PRIMARY KEY,
  owner TEXT NOT NULL UNIQUE
) STRICT;

-- The number of the newest owner, once deleted, is given to the next one.
CREATE TRIGGER holders_deleted AFTER DELETE ON holders
BEGIN
  DELETE FROM key_counts WHERE row = -old.row;
END;

-- Days go after a while, whoever removes them; the last use of a key stays.
CREATE TRIGGER key_counts_removed AFTER DELETE ON key_counts
WHEN old.last_used_at_ms IS NOT NULL AND old.window_s = 86400
BEGIN
  UPDATE api_keys SET last_used_at_ms = old.last_used_at_ms
  WHERE row = old.row AND coalesce(last_used_at_ms, 0) < old.last_used_at_ms;
END;
