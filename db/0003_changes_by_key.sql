-- Finds the changes of one key: a creation that reaches the database after the key's deletion must not bring it back.

CREATE INDEX changes_by_key ON changes (key_hash);
