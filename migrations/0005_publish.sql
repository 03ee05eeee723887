-- publish(): one statement for any language. A plain INSERT does as well.
-- Lock: none on anything that exists. Time: instant.

-- The id is made first, so that the caller needs no SELECT right. With serialize_key the transaction waits for an earlier
-- one of the same topic and key, before it takes its seq: that is what order within a key asks of a writer.
CREATE FUNCTION outrider.publish(topic text, key text, type text, payload bytea, headers jsonb DEFAULT NULL,
  available_at timestamptz DEFAULT NULL, serialize_key boolean DEFAULT false) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ DECLARE new_id uuid := gen_random_uuid(); BEGIN
  IF serialize_key AND key IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(topic || chr(31) || key, 4711));
  END IF;
  INSERT INTO outrider.outbox (id, topic, key, type, payload, headers, available_at) VALUES (new_id, $1, $2, coalesce($3, $1), $4, $5, $6);
  RETURN new_id;
END $$;
