"""Analysis of settings experiments: effects, ranking, confirmation."""

#: Prefix of the identifiers of confirmation runs.
CONFIRM = "confirm-"
#: Schemes that plan each run from earlier results; no effects are estimated. `spsa` is only in older folders.
ADAPTIVE = ("tpe", "spsa")
