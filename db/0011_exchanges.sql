-- Uses are added to one count of each window, that of process 0, by all processes together, in exchanges that have
-- numbers: one that is sent twice, or late, adds nothing.
--
-- Only adds: servers of the version before run on. Their counts are rows of their own in the same table, which are part
-- of every sum, here and there.

CREATE TABLE exchanges (
  instance TEXT PRIMARY KEY,              -- a process, by a random text
  number INTEGER NOT NULL,                -- of its last exchange
  at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT, WITHOUT ROWID;

DROP TRIGGER key_counts_replaced;

-- What a key had in windows before is of no use, so it has few rows however short the window is. Of process 0 one more
-- stays: clocks disagree. Days stay.
CREATE TRIGGER key_counts_replaced AFTER INSERT ON key_counts
WHEN new.window_s <> 86400
BEGIN
  DELETE FROM key_counts WHERE row = new.row AND window_s = new.window_s
    AND number < new.number - (new.instance = 0) AND instance = new.instance;
END;
