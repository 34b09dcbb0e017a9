-- The first claim of a lane whose upstream was not known says which one it is.
UPDATE batch_lanes /* claim/bind_lane */ SET upstream = ?3
WHERE batch_id = ?1 AND lane = ?2 AND upstream = '?'
