-- Children: keys that a key with the scope `delegate` has made. They end with it (src/keys/children.ts).
--
-- Only adds: servers of the version before don't know the table, and to them a child is an unknown key.

CREATE TABLE children (
  row INTEGER PRIMARY KEY AUTOINCREMENT,  -- no number is used twice: replicas read those after the last
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  key_hash TEXT NOT NULL UNIQUE,
  parent_id TEXT NOT NULL,
  parent_hash TEXT NOT NULL,              -- of the parent's secret that made it, with which it ends
  name TEXT NOT NULL,
  scopes TEXT NOT NULL CHECK (json_type(scopes) = 'array'),
  resource TEXT,
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
  expires_at_ms INTEGER NOT NULL CHECK (expires_at_ms BETWEEN 0 AND 9007199254740991),
  ended_at_ms INTEGER CHECK (ended_at_ms BETWEEN 0 AND 9007199254740991),
  changed_by TEXT                         -- as in api_keys; `upkeep`: it is old, and its removal concerns nobody
) STRICT;

CREATE INDEX children_of_parent ON children (parent_id, expires_at_ms) WHERE ended_at_ms IS NULL;

CREATE INDEX children_of_owner ON children (owner, expires_at_ms) WHERE ended_at_ms IS NULL;

CREATE INDEX children_by_expiry ON children (expires_at_ms);

CREATE INDEX children_by_end ON children (ended_at_ms) WHERE ended_at_ms IS NOT NULL;

CREATE TRIGGER children_inserted AFTER INSERT ON children
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  VALUES (new.parent_id, new.owner, 'delegated', coalesce(new.changed_by ->> 'how', 'sql'), new.id,
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', substr(new.key_hash, 1, 12));
  UPDATE children SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

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
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint)
  SELECT old.parent_id, old.owner, 'child_ended', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', substr(old.key_hash, 1, 12)
  WHERE old.ended_at_ms IS NULL AND new.ended_at_ms IS NOT NULL;
  UPDATE children SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

-- Whoever removes an owner removes his keys first, with which these end.
CREATE TRIGGER children_leaving AFTER UPDATE OF deleting ON owners WHEN new.deleting IS NOT NULL
BEGIN
  UPDATE children SET changed_by = 'upkeep' WHERE owner = new.owner;
  DELETE FROM children WHERE owner = new.owner;
END;

CREATE TRIGGER children_deleted AFTER DELETE ON children WHEN old.changed_by IS NOT 'upkeep'
BEGIN
  INSERT INTO changes (key_hash, changed_at_ms) VALUES (old.key_hash, old.expires_at_ms);
  INSERT INTO key_events (key_id, owner, kind, how, fingerprint)
  SELECT old.parent_id, old.owner, 'child_ended', 'sql', substr(old.key_hash, 1, 12) WHERE old.ended_at_ms IS NULL;
END;
