"""Takes pytest's tests in another order: modules and, within them, classes and functions, drawn by a seed."""

import os
import random


def pytest_collection_modifyitems(items):
    draw = random.Random(int(os.environ.get("ASSAY_ORDER_SEED", "0")))

    def shuffled(tests, keys):
        if not keys:
            return draw.sample(tests, len(tests))
        groups = {}
        for t in tests:
            groups.setdefault(keys[0](t), []).append(t)
        names = list(groups)
        draw.shuffle(names)
        return [t for n in names for t in shuffled(groups[n], keys[1:])]

    items[:] = shuffled(list(items), [lambda t: str(t.nodeid).split("::")[0], lambda t: getattr(t, "cls", None)])
