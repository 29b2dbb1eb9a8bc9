-- A key may have a limit and a quota of its own, and every use is counted.
--
-- Only adds: servers of the version before run on, and neither see these limits nor count.

ALTER TABLE api_keys ADD COLUMN limit_requests INTEGER CHECK (limit_requests BETWEEN 1 AND 1000000000);

ALTER TABLE api_keys ADD COLUMN limit_window_s INTEGER
  CHECK (limit_window_s BETWEEN 1 AND 31622400 AND (limit_window_s IS NULL) = (limit_requests IS NULL));

ALTER TABLE api_keys ADD COLUMN quota_requests INTEGER CHECK (quota_requests BETWEEN 1 AND 1000000000);

ALTER TABLE api_keys ADD COLUMN quota_period TEXT
  CHECK (quota_period IN ('day', 'month') AND (quota_period IS NULL) = (quota_requests IS NULL));

-- Uses of a key in a window, by each process. They only grow, so that a statement that is sent twice, or late, does no
-- harm; what all processes had of a day that is long over is summed as that of process 0.
CREATE TABLE key_counts (
  row INTEGER NOT NULL,                   -- of api_keys
  window_s INTEGER NOT NULL,              -- its length; 86400: the uses of a UTC day, of every key
  number INTEGER NOT NULL,                -- of windows since the Unix epoch
  instance INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  PRIMARY KEY (row, window_s, number, instance)
) STRICT, WITHOUT ROWID;

-- The row of the newest key, once deleted, is given to the next one.
CREATE TRIGGER key_counts_deleted AFTER DELETE ON api_keys
BEGIN
  DELETE FROM key_counts WHERE row = old.row;
END;

-- The feed announces every change of a limit; its event is that of any other change.
CREATE TRIGGER api_keys_limited
AFTER UPDATE OF limit_requests, limit_window_s, quota_requests, quota_period ON api_keys
WHEN (old.limit_requests, old.limit_window_s, old.quota_requests, old.quota_period)
    IS NOT (new.limit_requests, new.limit_window_s, new.quota_requests, new.quota_period)
  AND (old.id, old.user_id, old.name, old.key_hash, old.scopes, old.active, old.expires_at_ms, old.second_hash,
    old.second_is, old.second_ends_at_ms, old.overlap_ms)
    IS (new.id, new.user_id, new.name, new.key_hash, new.scopes, new.active, new.expires_at_ms, new.second_hash,
    new.second_is, new.second_ends_at_ms, new.overlap_ms)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  VALUES (old.id, old.user_id, 'changed', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', substr(new.key_hash, 1, 12));
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;
