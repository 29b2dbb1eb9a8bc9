-- Keys that expire, in that order: how many will soon is asked for every minute.

CREATE INDEX api_keys_expiring ON api_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL AND active = 1;
