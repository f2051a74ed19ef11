"""The simulated clock, which all instances have: one that is told an instant tells the others before it answers."""

import asyncio

from peers import Peers, SilentError

_KEY = "clock"


class Clock:
    """The instant in ms since 1970; 0 until it is told."""

    def __init__(self, peers: Peers) -> None:
        """Tell it to these."""
        self._peers = peers
        self._told: tuple[int, asyncio.Future[None]] | None = None
        self.now = 0

    async def begin(self) -> None:
        """Read it, once this instance is on the list."""
        clock = await self._peers.read(_KEY)
        self.now = int(clock["now"]) if clock else 0

    async def tell(self, now: int) -> None:
        """Set it everywhere; return when every instance that answers has it. The same instant is told once."""
        if self._told and self._told[0] == now:
            await asyncio.shield(self._told[1])
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._told = now, done
        try:
            self.now = now
            await self._peers.tell(_KEY, {"now": now}, f"/clock/{now}")
        except SilentError:
            # The instants that follow reach it.
            pass
        except BaseException:
            self._told = None
            raise
        finally:
            done.set_result(None)
