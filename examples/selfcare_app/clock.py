"""The simulated clock, shared by all instances: an instance forwards a new time to the others before it answers."""

import asyncio

from peers import Peers, SilentError

_KEY = "clock"


class Clock:
    """Time in ms since 1970; 0 until it is set."""

    def __init__(self, peers: Peers) -> None:
        """`peers` receive each new time."""
        self._peers = peers
        self._told: tuple[int, asyncio.Future[None]] | None = None
        self.now = 0

    async def begin(self) -> None:
        """Read the time after this instance has joined the list."""
        clock = await self._peers.read(_KEY)
        self.now = int(clock["now"]) if clock else 0

    async def tell(self, now: int) -> None:
        """Set the time on all instances; return when every reachable one has it. Repeated equal times are sent once."""
        if self._told and self._told[0] == now:
            await asyncio.shield(self._told[1])
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._told = now, done
        try:
            self.now = now
            await self._peers.tell(_KEY, {"now": now}, f"/clock/{now}")
        except SilentError:
            # Later times will reach it.
            pass
        except BaseException:
            self._told = None
            raise
        finally:
            done.set_result(None)
