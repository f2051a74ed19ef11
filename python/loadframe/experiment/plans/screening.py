"""Plackett-Burman designs: main effects of many two-level factors in few runs.

Plackett and Burman, "The design of optimum multifactorial experiments" (Biometrika 33, 1946). The matrices are those of
Hadamard, by Paley's construction from quadratic residues modulo a prime q = 3 (mod 4), for q + 1 runs, and by
Sylvester's doubling.
"""


def plackett_burman(factors: int) -> list[tuple[int, ...]]:
    """Return the smallest such design, as levels 0 and 1; its last run has every factor at its default."""
    runs = 4
    while (matrix := _hadamard(runs)) is None or runs <= factors:
        runs += 4
    # The first row has +1 everywhere, and signs of columns are free: turned round, it is the run of all defaults.
    rows = [tuple((1 - sign) // 2 for sign in row[1 : factors + 1]) for row in matrix]
    return [*rows[1:], rows[0]]


def _hadamard(size: int) -> list[list[int]] | None:
    """Return a matrix of +1 and -1 with orthogonal rows, the first row and column all +1; None if neither way leads."""
    if size == 1:
        return [[1]]
    prime = size - 1
    if prime % 4 == 3 and all(prime % divisor for divisor in range(2, int(prime**0.5) + 1)):
        squares = {number * number % prime for number in range(1, prime)}
        jacobsthal = [
            [0 if i == j else (1 if (i - j) % prime in squares else -1) for j in range(prime)] for i in range(prime)
        ]
        body = [[1, *(value - (i == j) for j, value in enumerate(row))] for i, row in enumerate(jacobsthal)]
        return [[1] * size, *body]
    half = _hadamard(size // 2) if size % 2 == 0 else None
    if half is None:
        return None
    return [row + row for row in half] + [row + [-value for value in row] for row in half]
