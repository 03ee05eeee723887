-- Who owns what: lanes, claims in flight, receipts of what left, and the replicas that live.
-- Lock: none on anything that exists. Time: instant.

-- A lane has one owner until its lease ends. fillfactor leaves room for an update in place each third of a lease.
CREATE TABLE outrider.lane (
  lane       smallint PRIMARY KEY,
  owner      uuid,                                                -- random for each take
  until      timestamptz NOT NULL DEFAULT '-infinity',
  epoch      bigint NOT NULL DEFAULT 0,
  owner_name text
) WITH (fillfactor = 20, vacuum_truncate = off);
INSERT INTO outrider.lane (lane) VALUES (0);

-- One row per batch in flight. A claim changes no event row.
CREATE TABLE outrider.claim (
  token      uuid PRIMARY KEY,
  lane       smallint NOT NULL,
  broker     text NOT NULL,
  claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seqs       bigint[] NOT NULL
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per settled batch: what left, when, how. Retention goes by it.
CREATE TABLE outrider.receipt (
  id         uuid PRIMARY KEY,
  settled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  broker     text,
  outcome    text NOT NULL DEFAULT 'sent',                        -- sent | discarded
  seqs       bigint[] NOT NULL,
  first_seq  bigint NOT NULL,
  last_seq   bigint NOT NULL,
  positions  text[]
);
CREATE INDEX receipt_settled ON outrider.receipt (settled_at);
CREATE INDEX receipt_range ON outrider.receipt (last_seq, first_seq);

-- Heartbeats, by which replicas share lanes out evenly. A hint: the lane rows alone decide.
CREATE TABLE outrider.replica (
  name    text PRIMARY KEY,
  seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);
