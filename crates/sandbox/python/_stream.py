"""Randomness: everything that is not explicitly seeded draws from the guest's stream (W-154).

The stream starts anew with the first answer of a hop. So nothing here keeps random state of its own between two draws: a
`random.Random` without a seed asks the stream each time, and turns into the ordinary generator only when it is given a seed.
"""

import random

import _host

_Base = random.Random


class Random(_Base):
    """`random.Random`, whose instances draw from the guest's stream until they are seeded."""

    def seed(self, a=None, version=2):
        if a is None:
            self._draw_from_stream()
        else:
            self._own()
            super().seed(a, version)
        self.gauss_next = None

    def gauss(self, mu=0.0, sigma=1.0):
        # The base class keeps the second value of each pair, which must not outlive a hop.
        if "random" in self.__dict__:
            self.gauss_next = None
        return super().gauss(mu, sigma)

    def getstate(self):
        self._pin()
        return super().getstate()

    def setstate(self, state):
        self._own()
        super().setstate(state)

    def _draw_from_stream(self):
        # On the instance, so that the base class's methods find them there, unless a program's class has its own.
        cls = type(self)
        if cls.random is _Base.random:
            self.__dict__["random"] = _host.uniform
        if cls.getrandbits is _Base.getrandbits:
            self.__dict__["getrandbits"] = _host.draw_bits

    def _own(self):
        self.__dict__.pop("random", None)
        self.__dict__.pop("getrandbits", None)

    def _pin(self):
        """A state that is asked for has to exist: from here on the generator goes on by itself."""
        if "random" in self.__dict__:
            self._own()
            super().seed(_host.draw_bits(256))


Random.__module__ = "random"
Random.__qualname__ = "Random"

_METHODS = """
    betavariate binomialvariate choice choices expovariate gammavariate gauss getstate lognormvariate normalvariate
    paretovariate randbytes randint randrange sample seed setstate shuffle triangular uniform vonmisesvariate weibullvariate
""".split()


def install():
    """Makes the module `random` draw from the stream. Run before anything imports from it."""
    random.Random = Random
    instance = random._inst = Random()
    for name in _METHODS:
        setattr(random, name, getattr(instance, name))

    # These two are looked up at each call: seeding puts others in their place.
    def uniform():
        return instance.random()

    def draw_bits(k):
        return instance.getrandbits(k)

    uniform.__name__ = uniform.__qualname__ = "random"
    draw_bits.__name__ = draw_bits.__qualname__ = "getrandbits"
    random.random, random.getrandbits = uniform, draw_bits


def install_uuid():
    """A node id is drawn each time instead of being kept, so that two guests thawed from one image share none (W-249)."""
    import uuid

    def getnode():
        return _host.draw_bits(48) | (1 << 40)

    uuid.getnode = getnode
