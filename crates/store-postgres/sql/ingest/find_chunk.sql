-- Whether a chunk was written already: then writing it again is a repeat. And where the file stands.
SELECT /* ingest/find_chunk */ f.state, f.chunks,
       EXISTS (SELECT 1 FROM windrow.file_chunks c WHERE c.file_id = f.id AND c.no = $2) AS written
  FROM windrow.files f WHERE f.id = $1 AND f.state <> 'dropped'
