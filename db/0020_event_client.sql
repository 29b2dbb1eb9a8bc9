-- Which client a key was handed to, if that is known by a document: an event of the hand-over has the client's id.
--
-- Only adds: servers of the version before leave the column NULL.
ALTER TABLE key_events ADD COLUMN client TEXT;

DROP TRIGGER codes_taken;

CREATE TRIGGER codes_taken AFTER UPDATE OF taken_by ON codes WHEN old.taken_by IS NULL AND new.changed_by IS NOT NULL
BEGIN
  INSERT INTO key_events (key_id, owner, kind, how, actor, request_id, address, fingerprint, client)
  SELECT k.id, k.user_id, 'connected', coalesce(new.changed_by ->> 'how', 'sql'), new.changed_by ->> 'actor',
    new.changed_by ->> 'requestId', new.changed_by ->> 'address', new.fingerprint, new.changed_by ->> 'client'
  FROM api_keys k WHERE k.id = new.key_id;
  UPDATE codes SET changed_by = NULL WHERE hash = new.hash AND changed_by IS NOT NULL;
END;
