-- A process that counts in a new window of a key no longer needs what it had in those before, whose uses count for nothing:
-- so a key has one row for each process and length of window, however short the window is. Days stay.

CREATE TRIGGER key_counts_replaced AFTER INSERT ON key_counts
WHEN new.window_s <> 86400
BEGIN
  DELETE FROM key_counts WHERE row = new.row AND window_s = new.window_s AND number < new.number
    AND instance = new.instance;
END;
