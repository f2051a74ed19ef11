"""The kinds of events in events.jsonl, by the names under which they are written and read."""

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
    Field(PHASE_ENDED, "", "", "the load of `phase` is over"),
    Field(GAP, "", "", "samples of `source` could not be taken from here on, because of `cause`"),
    Field(GAP_OVER, "", "", "samples of `source` are taken again from here on"),
    Field(REQUESTED, "", "", "a node is to be added; it does not run yet"),
    Field(JOINED, "", "", "the node is a member and answers"),
    Field(BALANCED, "", "", "all data is where it should be"),
    Field(LEAVING, "", "", "a node is to be removed; it still has all its data"),
    Field(LEFT, "", "", "its data is with the others, and it is stopped"),
    Field(KILLED, "", "", "the node's process was killed"),
    Field(RESTARTED, "", "", "a node that was gone is back, with its data"),
    Field(PAUSED, "", "", "the node's process was stopped with SIGSTOP"),
    Field(RESUMED, "", "", "the node's process runs again"),
    Field(CUT, "", "", "the nodes are cut off from the network"),
    Field(RESTORED, "", "", "the nodes are connected again"),
    Field(SHAPED, "", "", "packets are delayed, lost or slowed down from now on, or no longer"),
    Field(CONFIGURED, "", "", "settings of the running cluster were changed"),
    Field(FIRED, "", "", "the condition of a change was met"),
    Field(NEVER, "", "", "the condition of a change was not met in its time"),
    Field(STARTED, "", "", "a change of the cluster began"),
    Field(OVER, "", "", "the change is complete"),
    Field(FAILED, "", "", "the change failed, because of `cause`; `fault` is `store`, `generator` or `treatment`"),
    Field(BROKEN_OFF, "", "", "the run ended before the change was complete"),
    Field(BALANCING, "", "", "data is being moved: `what` is counted, in `unit`; the counts are in the telemetry"),
    Field(DECIDED, "", "", "a policy set the number of nodes"),
    Field(HELD, "", "", "the number of clients no longer grows"),
)
