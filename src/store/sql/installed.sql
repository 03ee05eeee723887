-- Whether the table of applied migrations exists. Locks: none. Lost reply: send it again.
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = :schema AND c.relname = 'migration' AND c.relkind = 'r')
