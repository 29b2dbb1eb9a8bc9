-- Counts the open requests of programs for a key without reading their rows: those of an address or a network, and all.
-- A range of `asked_from` is a network, so that what servers of the version before ask is counted too. The last two
-- columns are NULL in all rows; with them an index has all that a count looks at.
CREATE INDEX codes_open_from ON codes (asked_from, ends_at_ms, taken_by, decision)
WHERE asked_from IS NOT NULL AND taken_by IS NULL AND decision IS NULL;

CREATE INDEX codes_open ON codes (ends_at_ms, asked_from, taken_by, decision)
WHERE asked_from IS NOT NULL AND taken_by IS NULL AND decision IS NULL;
