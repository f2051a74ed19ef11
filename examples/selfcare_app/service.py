"""REST interface of one instance of the application, with the endpoints of the study."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, Field

from clock import Clock
from documents import Documents
from moves import Moves, RefusedMoveError
from on_mongodb import OnMongoDB
from on_search import OnSearch
from peers import Peers
from places import Places, declared
from settings import read
from timed import Records, Timed
from tokens import issue, user_of
from work import Work

#: Pause of the study's tester after a post, s.
_PAUSE = 1.005
#: Default length of an activity, ms.
_LASTS = 3_599_000

settings = read()


def _store(kind: str) -> Documents:
    if kind == "mongodb":
        return OnMongoDB(settings.hosts[kind], user_index=settings.user_index, login=settings.logins.get(kind))
    return OnSearch(
        settings.hosts[kind],
        wait_for=settings.refresh == "request",
        shards=settings.shards,
        replicas=settings.replicas,
        routing=settings.routing,
    )


stores: dict[str, Documents] = {kind: Timed(_store(kind)) for kind in settings.stores}  # type: ignore[misc]
places = Places(stores, declared(settings.placement, settings.stores))
work = Work(places, settings.refresh, merge=settings.merge)  # type: ignore[arg-type]
peers = Peers(stores[settings.stores[-1]], settings.instance, settings.address)
clock = Clock(peers)
moves = Moves(places, peers)
#: Whether a health check has succeeded, so that other instances can connect.
_open = asyncio.Event()


@asynccontextmanager
async def _life(_app: FastAPI) -> AsyncIterator[None]:
    await work.prepare()
    await peers.join()
    await clock.begin()
    await moves.begin()
    yield
    await peers.close()
    for store in stores.values():
        await store.close()


app = FastAPI(title="selfcare", lifespan=_life, openapi_url=None)


class Activity(BaseModel):
    """An hour of a user's day; times in ms since 1970."""

    start: int
    end: int | None = None
    type: str
    steps: int


class Activities(BaseModel):
    """Data of a wristband."""

    activities: list[Activity]


async def _user(authorization: Annotated[str, Header()] = "") -> str:
    """Return the user of the token; 401 without a valid one."""
    user = user_of(settings.secret, authorization.removeprefix("Bearer "))
    if user is None:
        raise HTTPException(401, "this token is not ours, or has expired")
    return user


User = Annotated[str, Depends(_user)]
Json = Annotated[Any, Body()]


@app.get("/health")
async def health() -> dict[str, str]:
    """Report that the instance is ready.

    The first call reads the changes that the others could not send before this instance was open.
    """
    if not _open.is_set():
        await clock.begin()
        await moves.begin()
        _open.set()
    return {"instance": settings.instance}


@app.post("/oauth/token")
async def token(request: Request) -> dict[str, Any]:
    """Return a token for any user name; passwords are not checked."""
    form = parse_qs((await request.body()).decode())
    if form.get("grant_type") != ["password"] or not form.get("username"):
        raise HTTPException(400, "a form with grant_type=password and a username is wanted")
    issued = issue(settings.secret, form["username"][0], settings.token_seconds)
    return {"access_token": issued, "token_type": "bearer", "expires_in": settings.token_seconds}


@app.get("/init/reset_static")
async def reset_static() -> dict[str, int]:
    """Rewrite the static documents."""
    return {"written": await work.reset_static()}


@app.get("/init/reset")
async def reset() -> dict[str, str]:
    """Remove all documents of users."""
    await moves.reset()
    await work.reset()
    return {"users": "none"}


@app.post("/init/addpatient/{user}")
async def add_patient(user: str, answers: Json = None) -> dict[str, str]:
    """Make a user."""
    await work.add_patient(user, answers or {}, clock.now)
    return {"user": user}


@app.get("/clock/{now}")
async def tell_clock(now: int) -> dict[str, int]:
    """Set the simulated clock of all instances."""
    await clock.tell(now)
    return {"now": clock.now}


@app.put("/clock/{now}")
async def hear_clock(now: int) -> dict[str, int]:
    """Set the time on behalf of another instance."""
    clock.now = now
    return {"now": now}


@app.get("/clock")
async def read_clock() -> dict[str, Any]:
    """Return the time of this instance."""
    return {"now": clock.now, "instance": settings.instance}


class Batch(BaseModel):
    """Request to move a collection."""

    to: str
    batch: int = Field(default=100, ge=1, le=1000)


@app.post("/placement/{collection}/next")
async def move_next(collection: str, asked: Batch) -> dict[str, Any]:
    """Move the next batch of a collection to another store, and return the number of documents left."""
    try:
        return await moves.next(collection, asked.to, asked.batch)
    except RefusedMoveError as error:
        raise HTTPException(409, str(error)) from error


@app.put("/placement/{collection}")
async def hear_place(collection: str, said: Json) -> dict[str, str]:
    """Set the place of a collection on behalf of another instance, after operations at the last place have ended."""
    await moves.hear(collection, said)
    return {"instance": settings.instance}


@app.get("/placement/{collection}")
async def read_place(collection: str) -> dict[str, Any]:
    """Return the store of a collection, and its number of documents on each store."""
    try:
        return await moves.told(collection)
    except RefusedMoveError as error:
        raise HTTPException(404, str(error)) from error


@app.post("/patient/activity", status_code=201)
async def post_activity(user: User, posted: Activities) -> dict[str, Any]:
    """Write activities and recompute achievements."""
    if not posted.activities:
        raise HTTPException(422, "the request contains zero activities")
    rows = [
        {**activity.model_dump(), "end": activity.start + _LASTS if activity.end is None else activity.end}
        for activity in posted.activities
    ]
    answer = await work.post_activity(user, rows, clock.now)
    if "unknown" in answer:
        raise HTTPException(404, f"unknown patient {user}")
    if settings.refresh == "pause":
        await asyncio.sleep(_PAUSE)
    return answer


@app.get("/patient/achievements")
async def achievements(user: User) -> dict[str, Any]:
    """Return the achievements of the user."""
    return await work.achievements(user)


@app.get("/patient/totals")
async def totals(user: User) -> dict[str, Any]:
    """Return the user's sums."""
    return await work.totals(user)


@app.post("/patient/plan/next")
async def next_plan(user: User, request: Request) -> dict[str, Any]:
    """Create the next plan, with or without tailoring answers."""
    body = await request.body()
    return await work.next_plan(user, json.loads(body) if body else {}, clock.now)


@app.get("/patient/plan/latest")
async def latest_plan(user: User) -> dict[str, Any]:
    """Return the current plan."""
    return await work.latest_plan(user)


@app.get("/patient/plan/tailoring")
async def tailoring(user: User) -> dict[str, Any]:
    """Return the questions of the week."""
    return await work.tailoring(user)


@app.post("/patient/plan/updateuser/exercise")
async def exercise(user: User, rows: Json) -> dict[str, Any]:
    """Record the completed exercises."""
    return await work.update("app_interaction", user, rows, clock.now)


@app.post("/patient/plan/updateuser/education")
async def education(user: User, rows: Json) -> dict[str, Any]:
    """Record the completed lessons."""
    return await work.update("feedback", user, rows, clock.now)


app = Records(app, settings.instance, settings.record)  # type: ignore[assignment]
