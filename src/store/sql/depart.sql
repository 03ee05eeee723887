-- A replica that stops takes its name off the list, so that the others share its lanes out at once.
-- Locks: its own row. Index: replica_pkey. Lost reply: ignore, its name goes with time.
DELETE FROM outrider.replica WHERE name = :name
