-- Some lanes of a dropped file.
DELETE FROM file_lanes /* sweep/reap_file_lanes */
WHERE file_id = ?1 AND lane IN (SELECT lane FROM file_lanes WHERE file_id = ?1 LIMIT ?2)
