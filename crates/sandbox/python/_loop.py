"""asyncio without sockets: an event loop whose only outside event is time."""

import asyncio


class _Timer:
    """What an event loop takes for its selector. Nothing ever becomes ready; to wait is to wait for a timer."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError(
                "asyncio has nothing left to wait for: no timer is set, and a guest has no sockets, threads or processes"
            )
        if timeout > 0:
            import stasis

            stasis.sleep(timeout)
        return []

    def get_map(self):
        return {}

    def close(self):
        pass


class Loop(asyncio.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = _Timer()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    def close(self):
        super().close()
        self._selector.close()


class Policy(asyncio.AbstractEventLoopPolicy):
    _loop = None

    def get_event_loop(self):
        if self._loop is None:
            raise RuntimeError("There is no current event loop.")
        return self._loop

    def set_event_loop(self, loop):
        self._loop = loop

    def new_event_loop(self):
        return Loop()


def install():
    asyncio.set_event_loop_policy(Policy())
