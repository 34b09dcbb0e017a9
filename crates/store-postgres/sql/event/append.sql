-- Appends events; gives the version behind which each append begins.
SELECT /* event/append */ o_first FROM {fn}.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
