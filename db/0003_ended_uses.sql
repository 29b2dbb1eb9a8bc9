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
  SELECT old.user_id, unixepoch(format('%04d-%02d-01', m.month / 12, m.month % 12 + 1)) / 86400 + d.key, d.value
  FROM key_months m, json_each(json_array(m.d1, m.d2, m.d3, m.d4, m.d5, m.d6, m.d7, m.d8, m.d9, m.d10, m.d11, m.d12, m.d13, m.d14, m.d15, m.d16,
    m.d17, m.d18, m.d19, m.d20, m.d21, m.d22, m.d23, m.d24, m.d25, m.d26, m.d27, m.d28, m.d29, m.d30, m.d31)) d
  WHERE m.row = old.row AND d.value > 0
  ON CONFLICT (owner, day) DO UPDATE SET units = units + excluded.units;
  DELETE FROM key_counts WHERE row = old.row;
  DELETE FROM key_months WHERE row = old.row;
END;

-- An owner who leaves takes along what his keys used.
CREATE TRIGGER ended_uses_leaving AFTER UPDATE OF deleting ON owners WHEN new.deleting IS NOT NULL
BEGIN DELETE FROM ended_uses WHERE owner = new.owner; END;
