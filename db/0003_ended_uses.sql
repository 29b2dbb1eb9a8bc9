-- A deletion takes nothing off a bill: what a key used goes with it into a table that no limit and no quota reads.
--
-- Only adds. Servers of the version before go on: what they delete counts here, too.

CREATE TABLE ended_uses (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,                   -- since 1970, in UTC
  units INTEGER NOT NULL,
  PRIMARY KEY (owner, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_uses_by_day ON ended_uses (day);

DROP TRIGGER key_counts_deleted;
CREATE TRIGGER key_counts_deleted AFTER DELETE ON api_keys
BEGIN
  INSERT INTO ended_uses (owner, day, units)
  SELECT old.user_id, number, uses FROM key_counts WHERE row = old.row AND window_s = 86400
  ON CONFLICT (owner, day) DO UPDATE SET units = units + excluded.units;
  DELETE FROM key_counts WHERE row = old.row;
END;

-- An owner who leaves takes along what his keys used.
CREATE TRIGGER ended_uses_leaving AFTER UPDATE OF deleting ON owners WHEN new.deleting IS NOT NULL
BEGIN DELETE FROM ended_uses WHERE owner = new.owner; END;
