"""Work of the back end per request, with about the same store operations as the back end of the study.

Posting an activity makes 20 to 25 store requests. Before each operation it checks whether the user has documents of
that type. It reads the time zone for each date, computes sums over a day, a week, a month and in total, and finally
rewrites every achievement.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from documents import COLLECTIONS, STATIC, Document, Documents
from recommender import recommend, stored_cases
from timed import timed_part

_HOUR = 3_600_000
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
_MONTH = 30 * _DAY
#: Default goal of a user, steps per day.
_GOAL = 6000
#: Number of available exercises and lessons, and number per plan.
_STATIC_DOCUMENTS = 60
_PLANNED = 6


class Work:
    """The work of one instance, on the combined stores of `places.py`."""

    def __init__(self, store: Documents, refresh: str, *, merge: bool) -> None:
        """`refresh` selects how writes become visible, `merge` merges static collections; see `under_test.py`."""
        self._store = store
        self._refresh = refresh
        self._merge = merge

    async def prepare(self) -> None:
        """Create missing collections."""
        await self._store.prepare(COLLECTIONS)

    async def reset_static(self) -> int:
        """Write the static documents, and return their number."""
        await self._store.clear(STATIC)
        documents = {
            str(number): {"user": "-", "date": 0, "name": f"exercise {number}", "level": number % 5, "sets": 3}
            for number in range(_STATIC_DOCUMENTS)
        }
        await self._store.put("exercise", documents)
        cases = stored_cases(_STATIC_DOCUMENTS, _PLANNED)
        await self._store.put(
            "case", {str(number): {"user": "-", "date": 0, **case} for number, case in enumerate(cases)}
        )
        await self._seen(["case", "exercise"])
        if self._merge:
            await self._store.merge(["exercise"])
        return len(documents)

    async def reset(self) -> None:
        """Remove all documents of users."""
        await self._store.clear([name for name in COLLECTIONS if name not in STATIC])

    async def add_patient(self, user: str, answers: Mapping[str, Any], now: int) -> None:
        """Create a user with the answers of the first visit."""
        fields = {"user": user, "date": now}
        await self._store.put("account", {user: {**fields, "answers": dict(answers)}})
        await self._store.put("baseline", {user: {**fields, "pain": 5}})
        await self._store.put("app_settings", {user: {**fields, "timezone_hours": 1}})
        await self._store.put("daily_goals", {user: {**fields, "goal": _GOAL}})
        await self._store.put("follow_up", {f"{now}-{user}": {**fields, "answers": {}}})
        await self._seen(["account", "baseline", "app_settings", "daily_goals", "follow_up"])

    async def post_activity(self, user: str, activities: Sequence[Document], now: int) -> Document:
        """Write activities, and recompute every achievement."""
        if not await self._store.exists("account", user):
            return {"unknown": user}
        documents = {
            f"{activity['start']}-{user}": {
                "user": user,
                "date": activity["start"],
                "end": activity["end"],
                "type": activity["type"],
                "steps": activity["steps"],
                "seconds": (activity["end"] - activity["start"]) // 1000,
            }
            for activity in activities
        }
        await self._checked("activity", user)
        await self._store.put("activity", documents)
        await self._seen(["activity"])
        last = max(activity["start"] for activity in activities)
        walked = any(activity["type"] == "walking" for activity in activities)
        reached = await self._achievements(user, last, walked=walked)
        return {"written": len(documents), **reached}

    async def _achievements(self, user: str, at: int, *, walked: bool) -> Document:
        day = await self._beginning(user, at, _DAY)
        of_day = await self._checked("activity", user, "between", day, day + _DAY)
        steps_day = await self._sum(user, "steps", day, _DAY)
        week = await self._beginning(user, at, _WEEK)
        steps_week = await self._sum(user, "steps", week, _WEEK)
        month = await self._beginning(user, at, _MONTH)
        steps_month = await self._sum(user, "steps", month, _MONTH)
        if walked:
            await self._sum(user, "seconds", await self._beginning(user, at, _DAY), _DAY)
        steps = await self._checked("activity", user, "total", "steps")
        seconds = await self._checked("activity", user, "total", "seconds")
        goals = await self._checked("daily_goals", user, "get", user) or {}
        await self._checked("baseline", user, "get", user)
        before = await self._checked("achievement", user, "get", user) or {}
        await self._checked("plan", user, "latest")
        await self._checked("follow_up", user, "latest")
        reached = await self._checked("achievement", user, "all")
        await self._checked("education_queue", user, "all")
        if (at - day) < _HOUR:
            # The first of a day.
            await self._checked("activity", user, "latest")
            await self._checked("feedback", user, "all")
        await self._timezone(user)
        document = {
            "user": user,
            "date": at,
            "steps": int(steps),
            "seconds": int(seconds),
            "steps_day": int(steps_day),
            "steps_week": int(steps_week),
            "steps_month": int(steps_month),
            "days_with_goal": before.get("days_with_goal", 0),
        }
        goal = int(goals.get("goal", _GOAL))
        medal = f"{day}-{user}"
        if steps_day >= goal and not any(row.get("medal") == medal for row in reached):
            document["days_with_goal"] += 1
            await self._checked("achievement", user)
            await self._store.put("achievement", {medal: {"user": user, "date": at, "medal": medal}})
        await self._checked("achievement", user)
        await self._store.put("achievement", {user: document})
        await self._seen(["achievement"])
        return {"today": len(of_day), "steps_day": int(steps_day)}

    async def achievements(self, user: str) -> Document:
        """Return the achievements of the user."""
        await self._checked("achievement", user)
        return {"achievements": [_plain(row) for row in await self._store.all("achievement", user)]}

    async def totals(self, user: str) -> Document:
        """Return the sums over all activities of the user, and their number."""
        steps = await self._checked("activity", user, "total", "steps")
        seconds = await self._checked("activity", user, "total", "seconds")
        count = await self._store.count("activity", user)
        return {"activities": count, "steps": int(steps), "seconds": int(seconds)}

    async def next_plan(self, user: str, answers: Mapping[str, Any], now: int) -> Document:
        """Create a plan of exercises from the cases most similar to the user's, and of lessons."""
        if answers:
            await self._store.put("follow_up", {f"{now}-{user}": {"user": user, "date": now, "answers": dict(answers)}})
            await self._seen(["follow_up"])
        last = await self._checked("plan", user, "latest") or {}
        told = await self._checked("follow_up", user, "latest") or {}
        account = await self._store.get("account", user) or {}
        reached = await self._store.get("achievement", user) or {}
        cases = await self._store.all("case", "-")
        week = int(last.get("week", 0)) + 1
        with timed_part("recommend"):
            features = {"steps": reached.get("steps_week"), **account.get("answers", {}), **told.get("answers", {})}
            chosen = recommend(features, cases, _PLANNED)
        plan = {"user": user, "date": now, "week": week, "exercises": chosen}
        await self._store.put("plan", {f"{now}-{user}": plan})
        lessons = {
            f"{now}-{user}-{number}": {"user": user, "date": now, "lesson": number} for number in range(_PLANNED)
        }
        await self._store.put("education_queue", lessons)
        await self._seen(["plan", "education_queue"])
        return await self.latest_plan(user)

    async def latest_plan(self, user: str) -> Document:
        """Return the current plan."""
        return {"plan": _plain(await self._checked("plan", user, "latest") or {})}

    async def tailoring(self, user: str) -> Document:
        """Return the weekly questions, with the answers of the last week."""
        last = await self._checked("follow_up", user, "latest") or {}
        await self._timezone(user)
        return {"questions": ["pain", "sleep", "work"], "answers": last.get("answers", {})}

    async def update(self, collection: str, user: str, rows: Sequence[Mapping[str, Any]], now: int) -> Document:
        """Record completed exercises or lessons of a plan."""
        documents = {
            f"{now}-{user}-{number}": {"user": user, "date": now, **dict(row)} for number, row in enumerate(rows)
        }
        await self._checked(collection, user)
        await self._store.put(collection, documents)
        await self._seen([collection])
        return {"written": len(documents)}

    async def _checked(self, collection: str, user: str, operation: str = "", *rest: Any) -> Any:
        """Check whether the user has documents there, as the study's back end does, then run the operation."""
        there = await self._store.exists(collection, user)
        if not operation:
            return there
        asked = rest if operation == "get" else (user, *rest)
        return await getattr(self._store, operation)(collection, *asked)

    async def _sum(self, user: str, field: str, start: int, length: int) -> float:
        return float(await self._checked("activity", user, "total", field, start, start + length))

    async def _beginning(self, user: str, at: int, length: int) -> int:
        """Return the start of the day, week or month of a time, in the user's time zone."""
        shift = await self._timezone(user) * _HOUR
        return (at + shift) // length * length - shift

    async def _timezone(self, user: str) -> int:
        settings = await self._checked("app_settings", user, "get", user) or {}
        return int(settings.get("timezone_hours", 0))

    async def _seen(self, collections: Sequence[str]) -> None:
        """Make writes visible to later reads, as set by `refresh`."""
        if self._refresh == "affected":
            await self._store.refresh(collections)
        elif self._refresh == "all":
            await self._store.refresh(COLLECTIONS)


def _plain(row: Mapping[str, Any]) -> Document:
    """Return a document without fields added by the store."""
    return {key: value for key, value in row.items() if key != "_id"}
