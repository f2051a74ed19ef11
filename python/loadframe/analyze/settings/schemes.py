"""Constants shared by the design and the analysis of settings experiments; imports nothing."""

#: Prefix of the identifiers of confirmation runs.
CONFIRM = "confirm-"
#: Schemes that plan each run from earlier results; no effects are estimated. `spsa` is only in older folders.
ADAPTIVE = ("tpe", "spsa")
