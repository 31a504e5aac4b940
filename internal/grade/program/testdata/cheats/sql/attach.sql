ATTACH '/tests/cases.ndjson' AS k; SELECT * FROM k.sqlite_master
