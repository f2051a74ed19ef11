"""What the design of a settings experiment and its analysis must agree on; light to import."""

#: What the names of runs begin with that measure the winner again.
CONFIRM = "confirm-"
#: Schemes whose runs follow from those before: they have no model of effects.
ADAPTIVE = ("tpe", "spsa")
