SELECT load_extension('/app/x'); SELECT readfile('/tests/cases.ndjson')
