"""Kinds of events in events.jsonl."""

from loadframe.record.schema.model import Field

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

EVENT_KINDS = (
    Field(PHASE_STARTED, "", "", "the load of `phase` began"),
    Field(PHASE_ENDED, "", "", "the load of `phase` ended"),
    Field(GAP, "", "", "sampling of `source` started to fail, because of `cause`"),
    Field(GAP_OVER, "", "", "sampling of `source` works again"),
    Field(REQUESTED, "", "", "a node was requested; it does not run yet"),
    Field(JOINED, "", "", "the node is a member and answers"),
    Field(BALANCED, "", "", "all data are in their final place"),
    Field(LEAVING, "", "", "removal of a node began; it still has all its data"),
    Field(LEFT, "", "", "the node's data have been moved, and the node is stopped"),
    Field(KILLED, "", "", "the node's process was killed"),
    Field(RESTARTED, "", "", "a failed node is a member again, with its data"),
    Field(PAUSED, "", "", "the node's process was stopped with SIGSTOP"),
    Field(RESUMED, "", "", "the node's process runs again"),
    Field(CUT, "", "", "the nodes were disconnected from the network"),
    Field(RESTORED, "", "", "the nodes were connected again"),
    Field(SHAPED, "", "", "delay, loss or bandwidth limits of links were changed or removed"),
    Field(CONFIGURED, "", "", "settings of the running cluster were changed"),
    Field(FIRED, "", "", "the condition of a change was met"),
    Field(NEVER, "", "", "the condition of a change was not met in time"),
    Field(STARTED, "", "", "a change of the cluster began"),
    Field(OVER, "", "", "the change is complete"),
    Field(FAILED, "", "", "the change failed, because of `cause`; `fault` is `store`, `generator` or `treatment`"),
    Field(BROKEN_OFF, "", "", "the run ended before the change was complete"),
    Field(BALANCING, "", "", "data movement began; telemetry counts `what`, in `unit`"),
    Field(DECIDED, "", "", "a policy set the number of nodes"),
    Field(HELD, "", "", "the number of clients stopped growing"),
)
