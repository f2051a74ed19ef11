"""Replica sets: formation, joining, leaving, and reconnecting after address changes.

The tag `node` identifies a member by its node's name, because addresses may change.

Functions that send commands raise the errors of `client.Client`. `watch` gets the progress of waits, and may end them
by an error.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.base import Balancing, Health, Member, Unreachable, Watch, wait_until
from loadframe.store.mongodb.client import Client, MongoError

Clients = Callable[[str], Client]

_POLL = 0.1
#: MongoDB's limit of voting members.
_VOTERS = 7
#: States of members that serve, and of members that will serve.
_SERVING = {"PRIMARY", "SECONDARY"}
_COMING = {"STARTUP", "STARTUP2", "RECOVERING", "ROLLBACK"}
#: NotYetInitialized, AlreadyInitialized, NodeNotFound, ConfigurationInProgress, NewReplicaSetConfigurationIncompatible,
#: InterruptedDueToReplStateChange, NotWritablePrimary, PrimarySteppedDown, CurrentConfigNotCommittedYet.
_NOT_YET = 94
_ALREADY = 23
_LATER = {74, 109, 103, 11602, 10107, 189, 308}
#: Time limit for another member to catch up before a primary steps down, s.
_CATCH_UP = 30


def initiate(name: str, members: Sequence[Member], clients: Clients, watch: Watch, **more: Any) -> None:
    """Form a set of newly started servers, and wait until it has a primary; accept a set that is formed already.

    `name` is the set's name, `more` are further keys of its configuration. The first seven members have a vote.
    """
    wait([clients(member.address) for member in members], watch)
    config = {"_id": name, "members": [_entry(number, member) for number, member in enumerate(members)], **more}
    try:
        clients(members[0].address).ask({"replSetInitiate": config})
    except MongoError as error:
        if error.code != _ALREADY:
            raise
    elect([clients(member.address) for member in members], watch)


def wait(servers: Sequence[Client], watch: Watch) -> None:
    """Poll all servers until each answers; `watch` is called between polls and ends the wait by an error."""
    wait_until(lambda: all(_answers(server) for server in servers), watch, Balancing(0, "members", "starting"))


def elect(servers: Sequence[Client], watch: Watch) -> None:
    """Wait until there is a primary that all servers know; without one, make a secondary stand for election.

    Unreachable servers prolong the wait; `watch` ends it by an error.
    """

    def elected() -> bool:
        """Whether all servers know a primary; without one, ask a secondary to stand for election."""
        seen = [server.hello() for server in servers]
        if any(hello.get("isWritablePrimary") for hello in seen):
            return all(hello.get("primary") for hello in seen)
        for server, hello in zip(servers, seen, strict=True):
            if hello.get("secondary") and not hello.get("primary"):
                # A member that lacks writes is not elected; then try the next.
                with contextlib.suppress(MongoError):
                    server.ask({"replSetStepUp": 1})
                    break
        return False

    wait_until(elected, watch, Balancing(0, "members", "electing a primary"))


def primary(addresses: Sequence[str], clients: Clients) -> Client:
    """Return the client of a set's primary, or of the first server that answers if it is a router or in no set.

    StoreFailed without a primary, Unreachable if no server answers.
    """
    failure: LoadframeError | None = None
    for address in addresses:
        try:
            hello = clients(address).hello()
        except Unreachable as error:
            failure = error
            continue
        if hello.get("isWritablePrimary"):
            return clients(address)
        if hello.get("primary"):
            return clients(str(hello["primary"]))
        failure = StoreFailed("the replica set has no primary", where=address, remedy="try again in a moment")
    raise failure or Unreachable("no addresses to connect to")


def health(server: Client) -> Health:
    """Return a set's state as one member reports it: ready if all members serve and there is a primary.

    Nodes are the serving members. Pieces are members, since each holds all data: `moving` are those that start or copy
    data, `missing` the others that do not serve. Not ready, with no nodes, before the set is formed.
    """
    try:
        status = server.ask({"replSetGetStatus": 1})
    except MongoError as error:
        if error.code != _NOT_YET:
            raise
        return Health(ready=False, status="not initiated", nodes=0, moving=0, missing=0)
    states = [str(member["stateStr"]) for member in status["members"]]
    serving = [state for state in states if state in _SERVING]
    coming = sum(state in _COMING for state in states)
    known = {state: states.count(state) for state in sorted(set(states))}
    return Health(
        ready=len(serving) == len(states) and "PRIMARY" in states,
        status=", ".join(f"{count} {state.lower()}" for state, count in known.items()),
        nodes=len(serving),
        moving=coming,
        missing=len(states) - len(serving) - coming,
    )


def join(addresses: Sequence[str], member: Member, clients: Clients, watch: Watch) -> None:
    """Add a server without a vote, wait until it has all data, then give it a vote, unless seven others have one.

    `watch` gets the bytes left to copy.
    """
    newcomer = clients(member.address)
    wait([newcomer], watch)

    def add(config: dict[str, Any]) -> None:
        """Add the member to a configuration without a vote, if it is not there."""
        if not any(entry["host"] == member.address for entry in config["members"]):
            number = 1 + max(int(entry["_id"]) for entry in config["members"])
            config["members"].append(_entry(number, member) | {"votes": 0, "priority": 0})

    def empower(config: dict[str, Any]) -> None:
        """Give the member a vote in a configuration, unless the set has the most voters allowed."""
        voters = sum(int(entry["votes"]) for entry in config["members"])
        for entry in config["members"]:
            if entry["host"] == member.address and not entry["votes"] and voters < _VOTERS:
                entry |= {"votes": 1, "priority": 1}

    reconfigure(addresses, clients, watch, add)
    while True:
        hello = newcomer.hello()
        if hello.get("secondary"):
            break
        watch(_initial_sync(newcomer))
        time.sleep(_POLL)
    reconfigure(addresses, clients, watch, empower)
    watch(Balancing(0, "bytes", "secondary"))


def leave(addresses: Sequence[str], member: Member, clients: Clients, watch: Watch) -> None:
    """Remove a member; if it is the primary, it steps down first, and the others elect another.

    BadInput if the others could not elect a primary.
    """
    _require_others(addresses, member, clients)
    mine = clients(member.address)
    with contextlib.suppress(Unreachable):
        if mine.hello().get("isWritablePrimary"):
            watch(Balancing(1, "members", "stepping down"))
            with contextlib.suppress(Unreachable):
                mine.ask({"replSetStepDown": 120, "secondaryCatchUpPeriodSecs": _CATCH_UP})
    others = [clients(address) for address in addresses if address != member.address]
    elect(others, watch)
    remove(addresses, member, clients, watch)
    watch(Balancing(0, "members", "left"))


def remove(addresses: Sequence[str], member: Member, clients: Clients, watch: Watch) -> None:
    """Remove a member from the set's configuration; do nothing if it is not there."""

    def without(config: dict[str, Any]) -> None:
        """Drop the member from the configuration."""
        config["members"] = [entry for entry in config["members"] if entry["host"] != member.address]

    reconfigure([address for address in addresses if address != member.address], clients, watch, without)


def reunite(members: Sequence[Member], clients: Clients, watch: Watch) -> None:
    """Replace the addresses of restarted members in the set's configuration, by force, and wait for a primary.

    A member is recognised by its name, in the tag `node`. If no address changed, this only waits.
    """
    servers = [clients(member.address) for member in members]
    wait(servers, watch)
    at = {member.name: member.address for member in members}
    config = servers[0].ask({"replSetGetConfig": 1})["config"]
    moved = [
        entry
        for entry in config["members"]
        if (name := entry.get("tags", {}).get("node")) in at and entry["host"] != at[name]
    ]
    if moved:
        for entry in moved:
            entry["host"] = at[entry["tags"]["node"]]
        config["version"] = int(config["version"]) + 1
        # The set has a primary only when members find their own address in the configuration, so force it.
        servers[0].ask({"replSetReconfig": config, "force": True})
    elect(servers, watch)


def reconfigure(
    addresses: Sequence[str], clients: Clients, watch: Watch, change: Callable[[dict[str, Any]], None]
) -> None:
    """Apply `change`, which edits the set's configuration in place, and install the result; retry during other changes.

    Do nothing if `change` leaves the members as they are.
    """

    def done() -> bool:
        """Try the change once; return whether the configuration is as wanted, False during another change."""
        try:
            leader = primary(addresses, clients)
            config = leader.ask({"replSetGetConfig": 1})["config"]
            before = str(config["members"])
            change(config)
            if str(config["members"]) == before:
                return True
            config["version"] = int(config["version"]) + 1
            leader.ask({"replSetReconfig": config})
        except MongoError as error:
            if error.code not in _LATER:
                raise
            return False
        return True

    wait_until(done, watch, Balancing(0, "members", "changing the set"))


def _entry(number: int, member: Member) -> dict[str, Any]:
    """Return the configuration of the member with this `number`, from 0; the first seven have a vote."""
    voter = 1 if number < _VOTERS else 0
    return {"_id": number, "host": member.address, "votes": voter, "priority": voter, "tags": {"node": member.name}}


def _require_others(addresses: Sequence[str], member: Member, clients: Clients) -> None:
    """Raise BadInput unless more than half of the members other than `member` serve and so can elect a primary."""
    status = primary(addresses, clients).ask({"replSetGetStatus": 1})
    others = [entry for entry in status["members"] if entry["name"] != member.address]
    serving = [entry for entry in others if entry["stateStr"] in _SERVING]
    if not serving or len(serving) * 2 <= len(others):
        states = ", ".join(f"{entry['name']} is {str(entry['stateStr']).lower()}" for entry in others) or "none left"
        raise BadInput(
            f"the other members could not elect a primary without it ({states})",
            where=member.name,
            remedy="wait until they are secondaries, or restart them with `loadframe cluster up`",
        )


def _initial_sync(newcomer: Client) -> Balancing:
    """Return the progress of a new member's initial sync: the bytes left, and its state.

    0 and `starting` while the member reports an error, because it does not know the set yet.
    """
    with contextlib.suppress(MongoError):
        status = newcomer.ask({"replSetGetStatus": 1, "initialSync": 1})
        sync: Mapping[str, Any] = status.get("initialSyncStatus") or {}
        left = float(sync.get("approxTotalDataSize") or 0) - float(sync.get("approxTotalBytesCopied") or 0)
        state = next((str(entry["stateStr"]).lower() for entry in status["members"] if entry.get("self")), "starting")
        return Balancing(max(left, 0.0), "bytes", state)
    return Balancing(0, "bytes", "starting")


def _answers(server: Client) -> bool:
    """Whether a server answers `hello`; other errors than Unreachable are raised."""
    try:
        server.hello()
    except Unreachable:
        return False
    return True
