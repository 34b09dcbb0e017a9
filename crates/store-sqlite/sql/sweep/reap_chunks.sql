-- Some chunks of a dropped file.
DELETE FROM file_chunks /* sweep/reap_chunks */
WHERE file_id = ?1 AND no IN (SELECT no FROM file_chunks WHERE file_id = ?1 LIMIT ?2)
