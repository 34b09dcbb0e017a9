-- A set in text form as the domain writes it: sorted, with ranges that touch joined.
CREATE FUNCTION {fn}.tidy_lines(p_lines text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    WITH /* claim/tidy_lines */ joined AS (
        SELECT unnest(range_agg(int8range(split_part(part, '-', 1)::bigint,
                                          coalesce(nullif(split_part(part, '-', 2), ''), part)::bigint, '[]'))) AS r
          FROM unnest(string_to_array(p_lines, ',')) part
    )
    SELECT string_agg(CASE upper(r) - lower(r) WHEN 1 THEN lower(r)::text ELSE lower(r) || '-' || upper(r) - 1 END,
                      ',' ORDER BY r)
      FROM joined
$$;
