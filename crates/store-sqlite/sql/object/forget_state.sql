-- An object has no state from now on.
DELETE FROM objects /* object/forget_state */ WHERE owner = ?1 AND stream = ?2
