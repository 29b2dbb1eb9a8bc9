-- Rules: a token of another issuer acts as a key. A rule is one more secret of its key, which nobody has (src/doors/rules/).
--
-- Only adds. Servers of the version before go on: to them a rule's hash, and the word `rules`, are hashes of keys that they
-- don't know.

-- The trail also says what a rule did: as JSON its id, the issuer and the subject.
DROP TRIGGER trail_inserted;
CREATE TRIGGER trail_inserted INSTEAD OF INSERT ON trail
BEGIN
  INSERT INTO key_events
    (key_id, owner, kind, how, actor, request_id, address, by_admin, client, workload, fingerprint, secret, fields)
  VALUES (new.key_id, new.owner, new.kind, coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.changed_by ->> 'byAdmin',
    new.changed_by ->> 'client', new.changed_by -> 'workload', substr(new.hash, 1, 12), new.secret, new.fields);
END;

-- Where the key set of an issuer's rules comes from. The last rule of an issuer takes its row along.
CREATE TABLE issuers (
  issuer TEXT PRIMARY KEY,
  jwks TEXT                               -- the set itself as JSON, or its URL; NULL: the issuer's metadata names it
) STRICT;

CREATE TABLE rules (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  key_id TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,              -- of 32 random bytes that nobody keeps
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,                  -- exact, or a beginning and *
  audiences TEXT NOT NULL CHECK (json_type(audiences) = 'array'), -- sorted; []: this server's
  claims TEXT NOT NULL CHECK (json_type(claims) = 'array'),       -- each as name=value, sorted
  scopes TEXT CHECK (json_type(scopes) = 'array'),                -- of the key's; NULL: all
  created_at_ms INTEGER NOT NULL CHECK (abs(created_at_ms) < 9007199254740992),
  changed_by TEXT,                        -- also 'key': it goes with its key
  deleting INTEGER,
  UNIQUE (issuer, subject, audiences, claims)
) STRICT;
CREATE INDEX rules_of_key ON rules (key_id);

-- Each change announces the rule's hash, as if a secret had changed, and that the rules have.
CREATE TRIGGER rules_added AFTER INSERT ON rules
BEGIN
  INSERT INTO changes (key_hash) VALUES (new.hash), ('rules');
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  SELECT k.id, k.user_id, 'rule_added', json_set(coalesce(new.changed_by, '{}'), '$.workload',
    json_object('rule', new.id, 'issuer', new.issuer, 'subject', new.subject)), k.key_hash
  FROM api_keys k WHERE k.id = new.key_id;
  UPDATE rules SET changed_by = NULL WHERE row = new.row AND changed_by IS NOT NULL;
END;

CREATE TRIGGER rules_updated AFTER UPDATE ON rules
WHEN (old.id, old.key_id, old.hash, old.issuer, old.subject, old.audiences, old.claims, old.scopes)
  IS NOT (new.id, new.key_id, new.hash, new.issuer, new.subject, new.audiences, new.claims, new.scopes)
BEGIN
  INSERT INTO changes (key_hash) VALUES (old.hash), ('rules');
END;

CREATE TRIGGER rules_deleting AFTER UPDATE OF deleting ON rules WHEN new.deleting IS NOT NULL
BEGIN DELETE FROM rules WHERE row = new.row; END;

CREATE TRIGGER rules_removed AFTER DELETE ON rules
BEGIN
  INSERT INTO changes (key_hash) VALUES (old.hash), ('rules');
  INSERT INTO trail (key_id, owner, kind, changed_by, hash)
  SELECT k.id, k.user_id, 'rule_removed', json_set(coalesce(old.changed_by, '{}'), '$.workload',
    json_object('rule', old.id, 'issuer', old.issuer, 'subject', old.subject)), k.key_hash
  FROM api_keys k WHERE k.id = old.key_id;
  DELETE FROM issuers WHERE issuer = old.issuer AND NOT EXISTS (SELECT 1 FROM rules WHERE issuer = old.issuer);
END;

CREATE TRIGGER issuers_changed AFTER UPDATE OF jwks ON issuers WHEN old.jwks IS NOT new.jwks
BEGIN
  INSERT INTO changes (key_hash) SELECT hash FROM rules WHERE issuer = old.issuer;
  INSERT INTO changes (key_hash) VALUES ('rules');
END;

-- REPLACE deletes without a word, and inserts.
CREATE TRIGGER issuers_added AFTER INSERT ON issuers
BEGIN
  INSERT INTO changes (key_hash) SELECT hash FROM rules WHERE issuer = new.issuer;
  INSERT INTO changes (key_hash) VALUES ('rules');
END;

CREATE TRIGGER issuers_removed AFTER DELETE ON issuers
BEGIN
  INSERT INTO changes (key_hash) SELECT hash FROM rules WHERE issuer = old.issuer;
  INSERT INTO changes (key_hash) VALUES ('rules');
END;

-- What changes a key changes its rules.
CREATE TRIGGER rules_of_key_changed AFTER UPDATE ON api_keys
WHEN (old.id, old.user_id, old.name, old.key_hash, old.scopes, old.active, old.expires_at_ms, old.second_hash,
    old.second_is, old.second_ends_at_ms, old.overlap_ms, old.limit_requests, old.limit_window_s, old.quota_requests,
    old.quota_period, old.resource, old.metadata)
  IS NOT (new.id, new.user_id, new.name, new.key_hash, new.scopes, new.active, new.expires_at_ms, new.second_hash,
    new.second_is, new.second_ends_at_ms, new.overlap_ms, new.limit_requests, new.limit_window_s, new.quota_requests,
    new.quota_period, new.resource, new.metadata)
BEGIN
  INSERT INTO changes (key_hash) SELECT hash FROM rules WHERE key_id = old.id;
END;

-- The event of the key says that its rules are gone; by now there is no key that theirs could name.
CREATE TRIGGER rules_of_key_deleted AFTER DELETE ON api_keys
BEGIN DELETE FROM rules WHERE key_id = old.id; END;
