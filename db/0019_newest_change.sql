-- The newest change is never removed, whatever its age: services keep it as their cursor (src/keys/recent-changes.ts),
-- and a process that starts after a quiet week must know it again. Servers of the version before keep it, too.

CREATE TRIGGER changes_newest_kept BEFORE DELETE ON changes
WHEN old.seq = (SELECT max(seq) FROM changes)
BEGIN
  SELECT raise(IGNORE);
END;
