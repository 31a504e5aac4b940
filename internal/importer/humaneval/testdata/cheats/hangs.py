# Never answers.
def answer(*args, **kwargs):
    while True:
        pass


def __getattr__(name):
    return answer
