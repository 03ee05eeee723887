-- The migrations that a schema has. Locks: none. Index: migration_pkey. Lost reply: send it again.
SELECT version, name, checksum FROM outrider.migration ORDER BY version
