"""Kinds of events of clusters and runs, and their meanings."""

PHASE_STARTED, PHASE_ENDED = "phase started", "phase ended"
GAP, GAP_OVER = "gap", "gap over"
REQUESTED, JOINED, BALANCED = "node requested", "node joined", "cluster balanced"
LEAVING, LEFT, KILLED, RESTARTED = "node leaving", "node left", "node killed", "node restarted"
PAUSED, RESUMED = "node paused", "node resumed"
CUT, RESTORED, SHAPED = "link cut", "link restored", "link shaped"
CONFIGURED = "settings changed"
FIRED, NEVER = "trigger fired", "trigger never fired"
STARTED, OVER, FAILED, BROKEN_OFF = "change started", "change over", "change failed", "change broken off"
BALANCING, DECIDED, HELD = "balancing", "policy decided", "clients held"

#: Meaning of each kind. Values of the event are in backquotes.
MEANINGS = {
    PHASE_STARTED: "the load of `phase` began",
    PHASE_ENDED: "the load of `phase` ended",
    GAP: "sampling of `source` started to fail, because of `cause`",
    GAP_OVER: "sampling of `source` works again",
    REQUESTED: "a node was requested; it does not run yet",
    JOINED: "the node is a member and answers",
    BALANCED: "all data are in their final place",
    LEAVING: "removal of a node began; it still has all its data",
    LEFT: "the node's data have been moved, and the node is stopped",
    KILLED: "the node's process was killed",
    RESTARTED: "a failed node is a member again, with its data",
    PAUSED: "the node's process was stopped with SIGSTOP",
    RESUMED: "the node's process runs again",
    CUT: "the nodes were disconnected from the network",
    RESTORED: "the nodes were connected again",
    SHAPED: "delay, loss or bandwidth limits of links were changed or removed",
    CONFIGURED: "settings of the running cluster were changed",
    FIRED: "the condition of a change was met",
    NEVER: "the condition of a change was not met in time",
    STARTED: "a change of the cluster began",
    OVER: "the change is complete",
    FAILED: "the change failed, because of `cause`; `fault` is `store`, `generator` or `treatment`",
    BROKEN_OFF: "the run ended before the change was complete",
    BALANCING: "data movement began; telemetry counts `what`, in `unit`",
    DECIDED: "a policy set the number of nodes",
    HELD: "the number of clients stopped growing",
}
