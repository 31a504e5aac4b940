"""The product: SHOP_STATE says how far it is."""

import os

STATE = os.environ.get("SHOP_STATE", "gold")

if STATE == "broken":
    raise RuntimeError("it does not even import")


def add(a, b):
    return a - b if STATE == "regress" else a + b


def new():
    return 0 if STATE in ("base", "partial") else 42


def newer():
    return 0 if STATE == "base" else 42
