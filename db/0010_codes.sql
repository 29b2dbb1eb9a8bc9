-- Codes that stand for a key: what an OAuth client redeems. And a key may be bound to one resource.
--
-- Only adds: servers of the version before run on. They know no bound keys: finish the upgrade before binding some.
-- Their tables code_secrets and redeemed_codes stay for them; what is left there is removed in time.

-- The server that the key is good for; NULL: any.
ALTER TABLE api_keys ADD COLUMN resource TEXT;

-- The feed announces a key that is bound otherwise; its event is that of any other change.
CREATE TRIGGER api_keys_bound AFTER UPDATE OF resource ON api_keys WHEN old.resource IS NOT new.resource
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  VALUES (old.id, old.user_id, 'changed', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', substr(new.key_hash, 1, 12));
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

-- A code is taken once, and then stands for nothing any more. `taken_by` tells the request that took it from others, if
-- it has to ask whether it was the one.
CREATE TABLE codes (
  hash TEXT PRIMARY KEY,                  -- SHA-256 of the code
  ends_at_ms INTEGER NOT NULL,
  content TEXT NOT NULL,                  -- what it stands for
  user_code_hash TEXT UNIQUE,             -- of a device's request: what the person types
  asked_from TEXT,                        -- as above: the network that asked
  decision TEXT,                          -- as above: what the person has decided
  taken_by TEXT,
  key_id TEXT,                            -- what was handed out
  fingerprint TEXT,
  changed_by TEXT                         -- as in api_keys
) STRICT, WITHOUT ROWID;

CREATE INDEX codes_by_end ON codes (ends_at_ms);

CREATE INDEX codes_by_network ON codes (asked_from, ends_at_ms) WHERE asked_from IS NOT NULL;

-- A key that is handed to a client leaves an event; a device has made its own.
CREATE TRIGGER codes_taken AFTER UPDATE OF taken_by ON codes WHEN old.taken_by IS NULL AND new.changed_by IS NOT NULL
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  SELECT k.id, k.user_id, 'connected', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.fingerprint
  FROM api_keys k WHERE k.id = new.key_id;
  UPDATE codes SET changed_by = NULL WHERE hash = new.hash AND changed_by IS NOT NULL;
END;
