-- The secret that marks of keys are made with.
SELECT /* upstream/mark_secret */ secret FROM mark_secret WHERE id = 1
