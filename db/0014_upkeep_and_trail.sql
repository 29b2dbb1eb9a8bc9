-- One process of a database does the upkeep for all, and the trail of one key is read without that of the others.

-- Work for which a process takes its turn by raising `at_ms`.
CREATE TABLE upkeep (
  task TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL DEFAULT 0        -- when its last run began
) STRICT;

INSERT INTO upkeep (task) VALUES ('records'), ('counts');

CREATE INDEX key_events_of_key ON key_events (key_id, seq) WHERE key_id IS NOT NULL;
