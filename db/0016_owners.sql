-- Owners with settings: limits and a quota of all their keys together, how many keys they may hold, and data of the
-- operator's own. Who is blocked still stands in blocked_owners alone, where servers of the version before look.
--
-- Only adds. The time of a change comes with it.

CREATE TABLE owners (
  owner TEXT PRIMARY KEY,
  limit_requests INTEGER CHECK (limit_requests BETWEEN 1 AND 1000000000),
  limit_window_s INTEGER
    CHECK (limit_window_s BETWEEN 10 AND 31622400 AND (limit_window_s IS NULL) = (limit_requests IS NULL)),
  quota_requests INTEGER CHECK (quota_requests BETWEEN 1 AND 1000000000),
  quota_period TEXT CHECK (quota_period IN ('day', 'month') AND (quota_period IS NULL) = (quota_requests IS NULL)),
  keys_max INTEGER CHECK (keys_max BETWEEN 0 AND 10000),
  metadata TEXT CHECK (json_type(metadata) = 'object'),
  changed_at_ms INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
  changed_by TEXT,                        -- as in api_keys
  deleting INTEGER
) STRICT;

-- The feed announces an owner whose settings have changed as one who was blocked.
CREATE TRIGGER owners_made AFTER INSERT ON owners WHEN new.deleting IS NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO key_events (owner, kind, how, actor, request_id, address, fields)
  SELECT new.owner, 'owner_changed', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', (SELECT json_group_array(field) FROM (
      SELECT 'rateLimit' AS field WHERE new.limit_requests IS NOT NULL
      UNION ALL SELECT 'quota' WHERE new.quota_requests IS NOT NULL
      UNION ALL SELECT 'keysMax' WHERE new.keys_max IS NOT NULL
      UNION ALL SELECT 'metadata' WHERE new.metadata IS NOT NULL
    ));
  UPDATE owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
END;

CREATE TRIGGER owners_updated
AFTER UPDATE OF limit_requests, limit_window_s, quota_requests, quota_period, keys_max, metadata ON owners
WHEN (old.limit_requests, old.limit_window_s, old.quota_requests, old.quota_period, old.keys_max, old.metadata)
  IS NOT (new.limit_requests, new.limit_window_s, new.quota_requests, new.quota_period, new.keys_max, new.metadata)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO key_events (owner, kind, how, actor, request_id, address, fields)
  SELECT new.owner, 'owner_changed', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', (SELECT json_group_array(field) FROM (
      SELECT 'rateLimit' AS field WHERE (old.limit_requests, old.limit_window_s)
        IS NOT (new.limit_requests, new.limit_window_s)
      UNION ALL SELECT 'quota' WHERE (old.quota_requests, old.quota_period)
        IS NOT (new.quota_requests, new.quota_period)
      UNION ALL SELECT 'keysMax' WHERE old.keys_max IS NOT new.keys_max
      UNION ALL SELECT 'metadata' WHERE old.metadata IS NOT new.metadata
    ));
  UPDATE owners SET changed_by = NULL WHERE owner = new.owner AND changed_by IS NOT NULL;
  DELETE FROM owners WHERE owner = new.owner
    AND coalesce(limit_requests, quota_requests, keys_max, metadata) IS NULL;
END;

-- An owner leaves, with settings and counts, whether or not there is a row: it is inserted to be deleted.
CREATE TRIGGER owners_leaving_without_row AFTER INSERT ON owners WHEN new.deleting IS NOT NULL
BEGIN
  UPDATE owners SET deleting = new.deleting WHERE owner = new.owner;
END;

CREATE TRIGGER owners_leaving AFTER UPDATE OF deleting ON owners WHEN new.deleting IS NOT NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || new.owner, new.changed_at_ms);
  INSERT INTO key_events (owner, kind, how, actor, request_id, address)
  VALUES (new.owner, 'owner_deleted', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address');
  DELETE FROM holders WHERE owner = new.owner;
  DELETE FROM owners WHERE owner = new.owner;
END;

-- A row that was emptied first, or has left, has its event already.
CREATE TRIGGER owners_deleted AFTER DELETE ON owners
WHEN old.deleting IS NULL AND coalesce(old.limit_requests, old.quota_requests, old.keys_max, old.metadata) IS NOT NULL
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES ('owner:' || old.owner, old.changed_at_ms);
  INSERT INTO key_events (owner, kind, how, fields)
  VALUES (old.owner, 'owner_changed', 'sql', '["rateLimit","quota","keysMax","metadata"]');
END;

CREATE TRIGGER owners_renamed BEFORE UPDATE OF owner ON owners WHEN old.owner IS NOT new.owner
BEGIN
  SELECT raise(ABORT, 'an owner is not renamed: delete and insert');
END;
