# Calls the candidate's functions. usage: python3 -c … SOURCE, requests on 4, answers on 3.
#
# Everything here is in the candidate's hands once the source is loaded: it can
# then answer rightly or wrongly, and nothing else.


def _load_source(path):
    folder = os.path.dirname(os.path.abspath(path))
    sys.path[0] = folder  # -c had put "" there
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, "rb") as f:
        code = compile(f.read(), path, "exec", dont_inherit=True)
    module = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module
    sys.argv = [path]
    exec(code, module.__dict__)
    return module


def _find(module, name):
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _answer(module, request):
    try:
        value = _find(module, request["func"])(*request["args"], **request.get("kwargs", {}))
    except BaseException as e:
        return '{"raised":%s}' % describe(e)
    try:
        return '{"value":%s}' % dump(value)
    except NotPlain as e:
        return '{"refused":%s}' % _quote(str(e))
    except BaseException as e:  # of an iterator, for one
        return '{"raised":%s}' % describe(e)


def _serve(path):
    channel = Channel(4, 3)
    try:
        module = _load_source(path)
    except BaseException as e:
        channel.send('{"broken":%s}' % describe(e))
        return
    channel.send('{"ready":true}')
    while True:
        line = channel.receive()
        if line is None:
            return
        answer = _answer(module, load(line))
        try:
            sys.stdout.flush()
        except BaseException:
            pass  # the candidate may have closed or replaced it
        channel.send(answer)


try:
    _serve(sys.argv[1])
finally:
    os._exit(0)
