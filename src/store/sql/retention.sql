-- RETENTION: remove the outbox rows of the oldest receipts that are older than `keep`, and those receipts. An event is kept
-- `keep` after it left, however old it is; nothing without a receipt and nothing with a delivery row is ever removed. A
-- receipt whose outbox rows are locked by somebody else waits for the next run.
-- One runner per tenant across the fleet: who does not get the advisory lock, which ends with this statement, does nothing.
-- Locks: the outbox rows and receipts that go, never waiting for one. Index: receipt_settled (the limit of age is an index
-- bound because it is a sub-select), receipt_pkey, outbox_seq_key, delivery_pkey. Lost reply: send it again.
WITH me AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(:gate::bigint) AS alone),
due AS MATERIALIZED (SELECT r.id, r.seqs FROM outrider.receipt r
   WHERE (SELECT m.alone FROM me m) AND r.settled_at < (SELECT clock_timestamp() - :keep::interval)
   ORDER BY r.settled_at LIMIT :receipts::int),
old AS MATERIALIZED (SELECT o.seq FROM outrider.outbox o WHERE o.seq = ANY (ARRAY(SELECT unnest(d.seqs) FROM due d))
   AND NOT EXISTS (SELECT FROM outrider.delivery x WHERE x.seq = o.seq)),
free AS MATERIALIZED (SELECT o.seq FROM outrider.outbox o WHERE o.seq = ANY (ARRAY(SELECT w.seq FROM old w)) FOR UPDATE SKIP LOCKED),
kept AS MATERIALIZED (SELECT w.seq FROM old w WHERE w.seq NOT IN (SELECT f.seq FROM free f)),
del AS (DELETE FROM outrider.outbox o WHERE o.seq = ANY (ARRAY(SELECT f.seq FROM free f)) RETURNING 1),
gone AS (DELETE FROM outrider.receipt r WHERE r.id = ANY (ARRAY(SELECT d.id FROM due d
   WHERE NOT EXISTS (SELECT FROM kept k WHERE k.seq = ANY (d.seqs)))) RETURNING 1)
SELECT (SELECT m.alone FROM me m) AS alone, (SELECT count(*) FROM del) AS events, (SELECT count(*) FROM gone) AS receipts,
       (SELECT count(*) FROM kept) AS locked
