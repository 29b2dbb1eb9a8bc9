-- Last uses, apart from the records: a page holds those of hundreds of keys, and writing them rewrites no record.
-- The column of api_keys stays, for servers of the version before, which run on while they are replaced, and because
-- dropping it would rewrite the whole table, and have each replica pull it.

CREATE TABLE key_uses (
  row INTEGER PRIMARY KEY,                -- of api_keys
  last_used_at_ms INTEGER NOT NULL
) STRICT;

-- The row of the newest key, once deleted, is given to the next one.
CREATE TRIGGER key_uses_deleted AFTER DELETE ON api_keys
BEGIN
  DELETE FROM key_uses WHERE row = old.row;
END;
