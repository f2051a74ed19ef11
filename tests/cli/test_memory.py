"""Exhausted memory gives one message, in every command."""

import numpy as np

from commands import within


def test_memory_that_runs_out_is_one_message(tmp_path, monkeypatch):
    file = tmp_path / "m.csv"
    file.write_text("n,throughput\n1,10\n2,19\n4,30\n")
    # numpy's own refusal, of more than any machine has.
    monkeypatch.setattr("loadframe.library.actions.read_input", lambda path, most: np.empty(1 << 60, dtype=np.uint8))
    status, output, errors = within("fit", file)
    assert (status, output) == (1, "")
    assert errors.startswith("loadframe: out of memory: Unable to allocate")
    assert "Traceback" not in errors
