-- The lowest p_count lines of a set in text form, and the rest.
CREATE FUNCTION {fn}.split_lines(p_lines text, p_count bigint, OUT taken text, OUT rest text)
LANGUAGE sql IMMUTABLE AS $$
    WITH /* claim/split_lines */ ranges AS (
        SELECT lo, hi, coalesce(sum(hi - lo + 1) OVER (ORDER BY lo ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW), 0) AS before
          FROM (SELECT split_part(part, '-', 1)::bigint AS lo,
                       coalesce(nullif(split_part(part, '-', 2), ''), part)::bigint AS hi
                  FROM unnest(string_to_array(p_lines, ',')) part) r
    ), cut AS (
        SELECT lo, hi, least(hi, lo + p_count - before - 1) AS last FROM ranges
    )
    SELECT string_agg(CASE WHEN last = lo THEN lo::text ELSE lo || '-' || last END, ',' ORDER BY lo)
               FILTER (WHERE last >= lo),
           string_agg(CASE WHEN greatest(lo, last + 1) = hi THEN hi::text
                           ELSE greatest(lo, last + 1) || '-' || hi END, ',' ORDER BY lo)
               FILTER (WHERE greatest(lo, last + 1) <= hi)
      FROM cut
$$;
