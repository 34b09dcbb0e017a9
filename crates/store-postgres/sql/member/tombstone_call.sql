-- Leaves.
SELECT /* member/tombstone_call */ {fn}.tombstone($1, $2) AS lines
