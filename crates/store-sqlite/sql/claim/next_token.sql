-- A token that was never given before.
UPDATE tokens /* claim/next_token */ SET last = last + 1 WHERE id = 1 RETURNING last
