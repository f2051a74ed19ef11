"""Files named by users are read up to a limit, independent of their type."""

import os
import threading
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input


def test_a_file_a_pipe_and_nothing_are_read(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"n,x\n")
    assert read_input(file, 4) == b"n,x\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"1,2\n" * 50_000,))
    writer.start()
    assert len(read_input(pipe, 1 << 20)) == 200_000
    writer.join()
    assert read_input(Path(os.devnull), 10) == b""


def test_devices_folders_and_large_files_are_refused(tmp_path):
    with pytest.raises(BadInput, match="this is a device"):
        read_input(Path("/dev/zero"), 10)
    file = tmp_path / "a.csv"
    file.write_bytes(b"x" * 11)
    with pytest.raises(BadInput, match="the file is larger than 10 B"):
        read_input(file, 10)
    with pytest.raises(BadInput, match="cannot read the file: Is a directory"):
        read_input(tmp_path, 10)
