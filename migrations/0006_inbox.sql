-- The consumer's side: a second delivery of an event becomes a no-op.
-- Lock: none on anything that exists. Time: instant.
CREATE TABLE outrider.inbox (
  event_id    uuid NOT NULL,
  consumer    text COLLATE "C" NOT NULL CHECK (consumer <> '' AND octet_length(consumer) <= 512),
  consumed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_id, consumer)
);
CREATE INDEX inbox_consumed ON outrider.inbox (consumed_at);

-- True: this consumer sees the event for the first time; go on, in this same transaction. False: it was handled before.
-- While another transaction handles the same event this waits for it; if that one rolls back, the answer is true.
CREATE FUNCTION outrider.record_delivery(event_id uuid, consumer text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  INSERT INTO outrider.inbox (event_id, consumer) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT inbox_pkey DO NOTHING;
  RETURN FOUND;
END $$;
