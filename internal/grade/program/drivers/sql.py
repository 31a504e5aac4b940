# Runs a query on a database made for it. usage: python3 -c … SOURCE, a request
# on 4, an answer on 3.
MAX_ROWS = 200000


def _statements(text):
    import sqlite3
    part = ""
    for piece in text.split(";"):
        part += piece + ";"
        if sqlite3.complete_statement(part):
            yield part
            part = ""
    if part.strip(" \t\r\n;"):
        yield part


def _result(db, text):
    """The last statement's rows that has any columns."""
    found = None
    for statement in _statements(text):
        cursor = db.execute(statement)
        if cursor.description is not None:
            rows = cursor.fetchmany(MAX_ROWS + 1)
            if len(rows) > MAX_ROWS:
                raise NotPlain("more than %d rows" % MAX_ROWS)
            found = [d[0] for d in cursor.description], [list(r) for r in rows]
    return found


def _query(path):
    channel = Channel(4, 3)
    try:
        import sqlite3
    except ImportError as e:
        channel.send('{"broken":%s}' % describe(e))
        return
    request = load(channel.receive())
    try:
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.executescript(request["schema"])
    except Exception as e:
        channel.send('{"schema":%s}' % describe(e))
        return
    try:
        query = request.get("query")
        if query is None:
            with open(path, encoding="utf-8") as f:
                query = f.read()
        found = _result(db, query)
        if request.get("after") is not None:
            found = _result(db, request["after"])
        columns, rows = found or ([], [])
        channel.send('{"value":%s}' % dump({"columns": columns, "rows": rows}))
    except NotPlain as e:
        channel.send('{"refused":%s}' % _quote(str(e)))
    except BaseException as e:
        channel.send('{"raised":%s}' % describe(e))


try:
    _query(sys.argv[1])
finally:
    os._exit(0)
