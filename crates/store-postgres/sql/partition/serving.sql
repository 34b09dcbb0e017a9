-- What a member that runs messages says of itself; null for the metadata of others, whatever they are.
CREATE FUNCTION {fn}.serving(p_metadata text)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN /* partition/serving */
    RETURN CASE p_metadata::jsonb ->> 'role' WHEN 'messages' THEN p_metadata::jsonb END;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
