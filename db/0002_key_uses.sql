-- Last uses, apart from the records: a page holds those of hundreds of keys, and writing them rewrites no record.

CREATE TABLE key_uses (
  row INTEGER PRIMARY KEY,                -- of api_keys
  last_used_at_ms INTEGER NOT NULL
) STRICT;

INSERT INTO key_uses (row, last_used_at_ms)
SELECT row, last_used_at_ms FROM api_keys WHERE last_used_at_ms IS NOT NULL;

ALTER TABLE api_keys DROP COLUMN last_used_at_ms;

-- The row of the newest key, once deleted, is given to the next one.
CREATE TRIGGER key_uses_deleted AFTER DELETE ON api_keys
BEGIN
  DELETE FROM key_uses WHERE row = old.row;
END;
