-- The delivery table: one narrow row per event that is not sent yet, made in the writer's transaction by a trigger.
-- Lock: SHARE ROW EXCLUSIVE on the new outbox, which has no writers yet. Time: instant.

-- hold: 0 ready, 1 waits for due_at after a failure, 2 parked behind its key's head, 3 dead, 4 scheduled.
CREATE TABLE outrider.delivery (
  seq        bigint PRIMARY KEY,
  pos        bigint NOT NULL GENERATED ALWAYS AS (seq) STORED,    -- an order that only delivery_ready can serve
  due_at     timestamptz NOT NULL,
  lane       smallint NOT NULL,
  hold       smallint NOT NULL DEFAULT 0,
  attempts   int NOT NULL DEFAULT 0,
  refusals   int NOT NULL DEFAULT 0,
  topic      text COLLATE "C" NOT NULL,
  key        text COLLATE "C",
  dead_at    timestamptz,
  last_error text
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX delivery_ready  ON outrider.delivery (lane, topic, pos)      WHERE hold = 0;
CREATE INDEX delivery_due    ON outrider.delivery (lane, topic, due_at)   WHERE hold IN (1, 4);
CREATE INDEX delivery_held   ON outrider.delivery (lane, topic, key, seq) WHERE hold IN (1, 2, 3);
CREATE INDEX delivery_parked ON outrider.delivery (lane, topic, key, seq) WHERE hold = 2;

-- The lane of an event. More than one lane: the function is replaced, the number is a constant in its body, because a
-- writer in REPEATABLE READ would read an old number from a table.
CREATE FUNCTION outrider.lane_of(key text, seq bigint) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT 0::smallint $$;

-- Definer's rights: an application has no right on the delivery table. The search path is fixed so that it cannot lend
-- those rights to a function of its own.
CREATE FUNCTION outrider.outbox_delivery() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  INSERT INTO outrider.delivery (seq, due_at, lane, hold, topic, key)
  SELECT n.seq, coalesce(n.available_at, n.occurred_at), outrider.lane_of(n.key, n.seq),
         CASE WHEN n.available_at > clock_timestamp() THEN 4 ELSE 0 END, n.topic, n.key FROM new_rows n;
  RETURN NULL;
END $$;
CREATE TRIGGER outbox_delivery AFTER INSERT ON outrider.outbox REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION outrider.outbox_delivery();
