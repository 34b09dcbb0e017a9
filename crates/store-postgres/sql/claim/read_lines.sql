-- The outstanding lines of a lease; fails when one cannot be read.
SELECT /* claim/read_lines */ seq, line, raw FROM {fn}.lease_lines($1)
