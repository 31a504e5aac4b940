// No test at all.
