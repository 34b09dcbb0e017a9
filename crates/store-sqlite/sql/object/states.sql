-- What an object is.
SELECT /* object/states */ state FROM objects WHERE owner = ?1 AND stream = ?2
