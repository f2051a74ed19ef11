"""Kinds of store that are files of the user's: found by their paths, and refused in one message where they are bad."""

from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import below, find, is_path

PLAIN = Path(__file__).parents[1] / "plain_app"


def test_a_folder_and_its_file_are_the_same_store():
    assert find(str(PLAIN)) is find(str(PLAIN / "under_test.py"))
    assert find(str(PLAIN)).kind == "plain_app"


def test_paths_are_distinguished_from_kinds():
    assert is_path("./app")
    assert is_path("app.py")
    assert not is_path("opensearch")
    assert below("opensearch", Path("/x")) == "opensearch"
    assert below("../app", Path("/x/y")) == "/x/app"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise KeyError('deep')\n", r"line 2: cannot load this file: KeyError: 'deep'"),
        ("x = 1\ny = = 2\n", r"line 2: cannot load this file: SyntaxError"),
        ("", "does not define STORE"),
        ("STORE = 3", "sets STORE to a int"),
        ("from loadframe.store import Store\nclass S(Store): pass\nSTORE = S()", "TypeError: .*abstract"),
        (
            "from pathlib import Path\nfrom loadframe.store.application import Application\n"
            "STORE = Application(kind='x', folder=Path('.'), command=(), behind=('mongo',))",
            "unknown store 'mongo'",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_message(tmp_path, text, message):
    (tmp_path / "under_test.py").write_text(text)
    with pytest.raises(BadInput, match=f"(?s){message}"):
        find(str(tmp_path))


def test_a_place_where_nothing_is_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"(?s)no such file.*under_test\.py"):
        find(f"{tmp_path}/nowhere")
