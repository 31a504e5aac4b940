SELECT *, * , * FROM t
