-- Whether an admin did it, whose tools end and change keys of any owner: to a team, its members and an admin look alike.
--
-- Only adds: servers of the version before leave the column NULL.

ALTER TABLE key_events ADD COLUMN by_admin INTEGER CHECK (by_admin = 1);

DROP TRIGGER api_keys_updated;

CREATE TRIGGER api_keys_updated
AFTER UPDATE OF id, user_id, name, key_hash, scopes, active, expires_at_ms, second_hash, second_is, second_ends_at_ms,
  overlap_ms, limit_requests, limit_window_s, quota_requests, quota_period, resource, metadata ON api_keys
WHEN (old.id, old.user_id, old.name, old.key_hash, old.scopes, old.active, old.expires_at_ms, old.second_hash,
    old.second_is, old.second_ends_at_ms, old.overlap_ms, old.limit_requests, old.limit_window_s, old.quota_requests,
    old.quota_period, old.resource, old.metadata)
  IS NOT (new.id, new.user_id, new.name, new.key_hash, new.scopes, new.active, new.expires_at_ms, new.second_hash,
    new.second_is, new.second_ends_at_ms, new.overlap_ms, new.limit_requests, new.limit_window_s, new.quota_requests,
    new.quota_period, new.resource, new.metadata)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms)
  SELECT hash, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM (SELECT old.key_hash AS hash UNION ALL SELECT old.second_hash) WHERE hash IS NOT NULL;
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, by_admin, fingerprint, secret, fields)
  SELECT old.id, old.user_id, kind, coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.changed_by ->> 'byAdmin',
    substr(CASE
      WHEN kind = 'rotated' AND new.second_is = 'next' THEN new.second_hash
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_hash
      ELSE new.key_hash
    END, 1, 12),
    CASE
      WHEN kind = 'revoked' AND new.active = 1 THEN old.second_is
      WHEN kind = 'revoked' AND new.changed_by ->> 'how' = 'possession' THEN 'in_force'
    END,
    CASE WHEN kind = 'changed' THEN (SELECT json_group_array(field) FROM (
      SELECT 'name' AS field WHERE old.name IS NOT new.name
      UNION ALL SELECT 'scopes' WHERE old.scopes IS NOT new.scopes
      UNION ALL SELECT 'expiresAt' WHERE old.expires_at_ms IS NOT new.expires_at_ms
      UNION ALL SELECT 'rateLimit' WHERE (old.limit_requests, old.limit_window_s)
        IS NOT (new.limit_requests, new.limit_window_s)
      UNION ALL SELECT 'quota' WHERE (old.quota_requests, old.quota_period)
        IS NOT (new.quota_requests, new.quota_period)
      UNION ALL SELECT 'active' WHERE old.active IS NOT new.active
      UNION ALL SELECT 'resource' WHERE old.resource IS NOT new.resource
      UNION ALL SELECT 'metadata' WHERE old.metadata IS NOT new.metadata
    )) END
  FROM (SELECT CASE
    WHEN old.active = 1 AND new.active = 0 THEN 'revoked'
    WHEN old.rotations < new.rotations THEN 'rotated'
    WHEN old.second_hash = new.key_hash THEN 'first_used'
    WHEN old.active = 1 AND old.second_hash IS NOT NULL AND new.second_hash IS NULL THEN 'revoked'
    ELSE 'changed'
  END AS kind);
  UPDATE api_keys SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

DROP TRIGGER children_updated;

-- The feed announces a child that is changed or removed alone; a change of its parent is announced once, as ever. Its
-- times are the row's own: none is made here.
CREATE TRIGGER children_updated
AFTER UPDATE OF id, owner, key_hash, parent_id, parent_hash, name, scopes, resource, created_at_ms, expires_at_ms,
  ended_at_ms ON children
WHEN (old.id, old.owner, old.key_hash, old.parent_id, old.parent_hash, old.name, old.scopes, old.resource,
    old.created_at_ms, old.expires_at_ms, old.ended_at_ms)
  IS NOT (new.id, new.owner, new.key_hash, new.parent_id, new.parent_hash, new.name, new.scopes, new.resource,
    new.created_at_ms, new.expires_at_ms, new.ended_at_ms)
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, coalesce(new.ended_at_ms, new.expires_at_ms));
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, by_admin, fingerprint)
  SELECT old.parent_id, old.owner, 'child_ended', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.changed_by ->> 'byAdmin',
    substr(old.key_hash, 1, 12)
  WHERE old.ended_at_ms IS NULL AND new.ended_at_ms IS NOT NULL;
  UPDATE children SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;
