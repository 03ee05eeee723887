-- Whether the trigger that makes delivery rows exists and fires: O origin, A always, D disabled, R replica sessions only.
-- Locks: none. Lost reply: send it again.
SELECT t.tgname::text AS name, t.tgenabled::text AS enabled FROM pg_catalog.pg_trigger t
 WHERE t.tgrelid = 'outrider.outbox'::regclass AND t.tgname = 'outbox_delivery' AND NOT t.tgisinternal
