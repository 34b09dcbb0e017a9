-- The instance looks by itself.
DELETE /* wake/wake_up */ FROM windrow.sleepers WHERE instance = $1
