-- A replica says that it lives and learns who else does; it forgets those that have been silent for long. A hint for
-- sharing lanes out evenly: the lane rows alone decide who owns what.
-- Locks: its own row. Index: replica_pkey; the table has a row per replica. Lost reply: send it again.
WITH me AS (INSERT INTO outrider.replica AS r (name, seen_at) VALUES (:name, clock_timestamp())
            ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at),
gone AS (DELETE FROM outrider.replica r WHERE r.name <> :name AND r.seen_at < clock_timestamp() - :forget::interval)
SELECT r.name, clock_timestamp() - r.seen_at AS age FROM outrider.replica r
 WHERE r.name <> :name AND r.seen_at > clock_timestamp() - :alive::interval ORDER BY r.name
