-- The schema and the outbox: what applications insert and nobody updates.
-- Lock: none on anything that exists. Time: instant.
DO $$ BEGIN                                                       -- a schema that its owner made beforehand is taken as it is
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'outrider') THEN CREATE SCHEMA outrider; END IF;
END $$;

-- What was applied, so that a second run changes nothing and a program meets no schema that it does not know.
CREATE TABLE outrider.migration (
  version    int PRIMARY KEY,
  name       text NOT NULL,
  checksum   text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outrider.outbox (
  seq            bigint GENERATED ALWAYS AS IDENTITY UNIQUE,      -- order; the sequence's CACHE must stay 1
  id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  sequence_no    bigint,                                          -- the writer's own number within its aggregate
  occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  available_at   timestamptz,                                     -- not sent before
  causation_id   uuid,
  topic          text COLLATE "C" NOT NULL,
  key            text COLLATE "C",                                -- null: no order
  type           text NOT NULL,
  content_type   text NOT NULL DEFAULT 'application/json',
  aggregate_type text COLLATE "C",
  aggregate_id   text COLLATE "C",
  headers        jsonb,
  payload        bytea NOT NULL,
  -- Topic and key stand together in index entries of the delivery table, which hold 2,704 bytes. Refused here, a longer
  -- pair fails the writer's insert; accepted, it would fail the relay's settle, and all events of that batch with it.
  CONSTRAINT outbox_topic_length CHECK (topic <> '' AND octet_length(topic) <= 512),
  CONSTRAINT outbox_key_length CHECK (octet_length(key) <= 2048)
);
-- A numbering race of two writers of one aggregate fails one of them.
CREATE UNIQUE INDEX outbox_aggregate ON outrider.outbox (aggregate_type, aggregate_id, sequence_no) WHERE sequence_no IS NOT NULL;
