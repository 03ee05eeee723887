-- REQUEUE dead events: due at once, with a fresh count. Returns those that were dead; a second run changes nothing.
-- Locks: those rows. Index: delivery_pkey. Lost reply: send it again.
UPDATE outrider.delivery SET hold = 1, due_at = clock_timestamp(), attempts = 0, refusals = 0, dead_at = NULL
 WHERE seq = ANY (:seqs::bigint[]) AND hold + 0 = 3 RETURNING seq
