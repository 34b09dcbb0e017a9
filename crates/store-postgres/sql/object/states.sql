-- The states of these objects; i is the place in the question.
SELECT /* object/states */ u.i, o.state
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u(owner, stream, i)
  CROSS JOIN LATERAL (SELECT k.state FROM windrow.objects k WHERE k.owner = u.owner AND k.stream = u.stream LIMIT 1) o
