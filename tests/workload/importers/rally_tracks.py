"""The smallest of Rally's tracks, for tests that ask about a few operations."""


def simple(*operations, **more):
    schedule = [{"operation": {"name": f"o{i}", **operation}} for i, operation in enumerate(operations)]
    return {"indices": [{"name": "a"}], "schedule": schedule, **more}
