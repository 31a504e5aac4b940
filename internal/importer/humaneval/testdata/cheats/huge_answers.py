# Answers that are larger or deeper than any memory.
turn = 0


def answer(*args, **kwargs):
    global turn
    turn += 1
    if turn % 4 == 0:
        return 1 << (1 << 26)
    if turn % 4 == 1:
        return ("x" * (1 << 24),)
    if turn % 4 == 2:
        return (x for x in iter(int, 1))
    deep = []
    for _ in range(100000):
        deep = [deep]
    return deep


def __getattr__(name):
    return answer
