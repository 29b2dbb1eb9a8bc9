-- Handing keys to OAuth clients: the secrets that registrations and codes are sealed with, and the codes that were
-- redeemed, so that each is once, whichever server it comes to.

-- Signs the registrations of clients, which nobody stores; while it is the same, they are good.
INSERT INTO server_secrets (name, value) VALUES ('client_id', lower(hex(randomblob(32))));

-- One for each hour in which a code was made. What was sealed with one is lost when it is gone.
CREATE TABLE code_secrets (
  hour INTEGER PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- `attempt` tells the request that redeemed a code from others, if it has to ask whether it was the one.
CREATE TABLE redeemed_codes (
  number TEXT PRIMARY KEY,
  attempt TEXT NOT NULL,
  key_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  redeemed_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  changed_by TEXT                         -- as in api_keys
) STRICT, WITHOUT ROWID;

CREATE TRIGGER redeemed_codes_connected AFTER INSERT ON redeemed_codes
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  SELECT k.id, k.user_id, 'connected', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.fingerprint
  FROM api_keys k WHERE k.id = new.key_id;
  UPDATE redeemed_codes SET changed_by = NULL WHERE number = new.number AND changed_by IS NOT NULL;
END;
