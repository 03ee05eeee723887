-- The write transaction that has been open for longest, of the whole server: it is what the floor waits for. Another
-- role's age is shown only to members of pg_read_all_stats.
-- Locks: none. Lost reply: send it again.
SELECT w.pid, w.age FROM (
  SELECT a.pid, clock_timestamp() - a.xact_start AS age, a.backend_xid AS xid FROM pg_catalog.pg_stat_activity a
   WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid()
  UNION ALL SELECT NULL::int, clock_timestamp() - p.prepared, p.transaction FROM pg_catalog.pg_prepared_xacts p) w
 ORDER BY pg_catalog.age(w.xid) DESC LIMIT 1
