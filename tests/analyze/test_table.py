"""Measurements are read from the CSV files that people have; a line that is not one is refused, with its number."""

import pytest

from loadframe.analyze.scalability.observations import parse_table
from loadframe.base.errors import BadInput

PAIRS = ((1.0, 20.0), (4.0, 78.5), (8.0, 1.3e2))


@pytest.mark.parametrize(
    "content",
    [
        b"nodes,throughput\n1,20\n4,78.5\n8,1.3e2\n",
        b"\xef\xbb\xbfnodes,throughput\n1,20\n4,78.5\n8,1.3e2",
        b"nodes,throughput\r\n1,20\r\n4,78.5\r\n8,1.3e2\r\n",
        b"nodes;throughput\n1;20\n4;78.5\n8;1.3e2\n",
        b"nodes\tthroughput\n1\t20\n4\t78.5\n8\t1.3e2\n",
        b'"nodes", "throughput"\n\n1, 20\n 4 ,78.5\n\n8,+1.3e2\n\n',
    ],
    ids=["plain", "byte-order mark", "CRLF", "semicolons", "tabs", "quotes and blanks"],
)
def test_usual_files_are_read(content):
    table = parse_table(content, "a.csv")
    assert (table.over, table.measure) == ("nodes", "throughput")
    assert table.pairs == PAIRS


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"", "a.csv", "empty"),
        (b"\n \n", "a.csv", "empty"),
        (b"n,x\n", "a.csv", "no measurement"),
        (b"1,20\n2,30\n3,40\n", "a.csv:1", "numbers instead of a header"),
        (b"n\n1\n", "a.csv:1", "1 column"),
        (b"n,x,y\n1,2,3\n", "a.csv:1", "the third is 'y', not block"),
        (b"n,x,block\n1,2\n", "a.csv:2", "2 columns"),
        (b"n,x,block\n1,2,\n", "a.csv:2", "the block of the run is empty"),
        (b"throughput (1/s),nodes\n20,1\n", "a.csv:1", "the sizes come first"),
        (b"ops/sec,nodes\n20,1\n", "a.csv:1", "the sizes come first"),
        (b"n,\n1,2\n", "a.csv:1", "column name is empty"),
        (b"Requests/s,nodes\n20,1\n", "a.csv:1", "the first column is 'Requests/s', and the sizes come first"),
        (b"n,x\n1,2\n3\n", "a.csv:3", "1 column"),
        (b"n,x\n1,2\n3,4,5\n", "a.csv:3", "3 columns"),
        (b"n,x\n1,2\n\n3,fast\n", "a.csv:4", "x is 'fast'"),
        (b"n,x\n1,2\n3,\n", "a.csv:3", "x is ''"),
        (b"n,x\n1,nan\n", "a.csv:2", "not a finite number"),
        (b"n,x\n1,inf\n", "a.csv:2", "not a finite number"),
        (b"n,x\n1,1e999\n", "a.csv:2", "finite"),
        (b"n,x\n1,1_000\n", "a.csv:2", "1_000"),
        (b"n,x\n1,-5\n", "a.csv:2", "x must be above 0 and finite; got -5"),
        (b"n,x\n0,5\n", "a.csv:2", "n must be above 0 and finite; got 0"),
        (b"n,x\n1,0\n", "a.csv:2", "x must be above 0 and finite; got 0"),
        (b"n;x\n1;1,5\n", "a.csv:2", "'1,5'"),
        (b"n,x\n1,2\n\xff\xfe,4\n", "a.csv:3", "UTF-8"),
        (b'n,x\n1,"2\n', "a.csv:2", "not CSV"),
    ],
)
def test_invalid_tables_are_refused_with_the_line(content, where, what):
    with pytest.raises(BadInput) as caught:
        parse_table(content, "a.csv")
    assert caught.value.where == where
    assert what in caught.value.what
    assert caught.value.remedy


def test_a_third_column_names_the_block_of_each_run():
    table = parse_table(b"nodes,throughput,Block\n1,20,a\n4,78.5,a\n1,21,b\n", "a.csv")
    assert table.pairs == ((1.0, 20.0), (4.0, 78.5), (1.0, 21.0))
    assert table.blocks == ("a", "a", "b")
