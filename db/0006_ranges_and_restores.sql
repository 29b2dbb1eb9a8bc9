-- Numbers that JavaScript can't hold are refused: one typed into a row was a 500 for its owner's list. Triggers, because
-- SQLite adds a CHECK only by making the table anew, which would stop the servers of the version before; what is there
-- already is cut when it is read. And an event may name the backup that was put back.

ALTER TABLE key_events ADD COLUMN backup_seq INTEGER;

CREATE TRIGGER api_keys_inserted_range AFTER INSERT ON api_keys
WHEN new.row > 9007199254740991
  OR new.created_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.expires_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.last_used_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.second_ends_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.overlap_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.rotations NOT BETWEEN -9007199254740991 AND 9007199254740991
BEGIN
  SELECT raise(ABORT, 'a number of a key is beyond 2^53 - 1');
END;

CREATE TRIGGER api_keys_updated_range
AFTER UPDATE OF row, created_at_ms, expires_at_ms, last_used_at_ms, second_ends_at_ms, overlap_ms, rotations ON api_keys
WHEN new.row > 9007199254740991
  OR new.created_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.expires_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.last_used_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.second_ends_at_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.overlap_ms NOT BETWEEN -9007199254740991 AND 9007199254740991
  OR new.rotations NOT BETWEEN -9007199254740991 AND 9007199254740991
BEGIN
  SELECT raise(ABORT, 'a number of a key is beyond 2^53 - 1');
END;
