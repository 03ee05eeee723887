-- Of the newest `window` outbox rows those that have neither a delivery row nor a receipt: the trigger did not fire for
-- them, so they would never be sent. The remedy is to insert their delivery row.
-- Locks: none. Index: outbox_seq_key (from the newest down), delivery_pkey, receipt_range. Lost reply: send it again.
WITH newest AS MATERIALIZED (SELECT o.seq FROM outrider.outbox o ORDER BY o.seq DESC LIMIT :window::int),
unsent AS MATERIALIZED (SELECT n.seq FROM newest n WHERE NOT EXISTS (SELECT FROM outrider.delivery d WHERE d.seq = n.seq)),
settled AS MATERIALIZED (SELECT u.seq FROM outrider.receipt r CROSS JOIN unnest(r.seqs) AS u(seq)
   WHERE r.last_seq >= (SELECT min(n.seq) FROM newest n))
SELECT u.seq FROM unsent u WHERE u.seq NOT IN (SELECT s.seq FROM settled s) ORDER BY u.seq LIMIT :cap::int
