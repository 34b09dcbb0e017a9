-- The states of these objects; i is the place in the question.
SELECT /* object/states */ u.i, o.state
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u(owner, stream, i)
  JOIN windrow.objects o ON o.owner = u.owner AND o.stream = u.stream
