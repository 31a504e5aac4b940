.shell echo passed
.system true
SELECT 1
