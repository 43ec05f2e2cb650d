"""Parallel text: what is read, what is skipped, and how faults are told."""

import gzip

import pytest

from tinytensor.models.data.corpus import CorpusError, read_lines, read_pairs


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_pairs_are_aligned_and_empty_ones_counted(tmp_path):
    source = write(tmp_path / "s", " a b \n\nc\r\n  \n\u00e9\n")
    target = write(tmp_path / "t", "A\nB\nC\nD\n\u00c9\n")
    corpus = read_pairs(source, target)
    assert (corpus.sources, corpus.targets, corpus.empty) == (["a b", "c", "\u00e9"], ["A", "C", "\u00c9"], 2)
    assert len(corpus) == 3


def test_the_last_line_needs_no_end_and_other_separators_are_text(tmp_path):
    """str.splitlines would cut at U+2028 and form feeds, and alignment would be lost."""
    assert read_lines(write(tmp_path / "x", "a\u2028b\nc\x0cd")) == ["a\u2028b", "c\x0cd"]
    assert read_lines(write(tmp_path / "empty", "")) == []


def test_a_byte_order_mark_is_no_text(tmp_path):
    assert read_lines(write(tmp_path / "x", b"\xef\xbb\xbfa\n")) == ["a"]
    assert read_lines(write(tmp_path / "x", b"\xef\xbb\xbf  a \n")) == ["a"]


def test_gz(tmp_path):
    assert read_lines(write(tmp_path / "x.gz", gzip.compress(b"a\nb\n"))) == ["a", "b"]
    for content in (b"a\nb\n", gzip.compress(b"a\nb\n" * 100)[:-9]):
        with pytest.raises(CorpusError, match=r"broken\.gz is no whole gzip file"):
            read_lines(write(tmp_path / "broken.gz", content))


def test_different_numbers_of_lines(tmp_path):
    with pytest.raises(CorpusError, match=r"s has 2 lines, .*t has 1; aligned files have the same number"):
        read_pairs(write(tmp_path / "s", "a\nb\n"), write(tmp_path / "t", "a\n"))


def test_bytes_that_are_not_utf8(tmp_path):
    with pytest.raises(CorpusError, match=r"x, line 2: not UTF-8 \(byte 3 of the line\)"):
        read_lines(write(tmp_path / "x", b"a\nbc\xff\n"))


def test_files_that_are_missing_or_hold_nothing(tmp_path):
    with pytest.raises(CorpusError, match=r"cannot read .*nowhere: No such file"):
        read_lines(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="hold no pair of sentences"):
        read_pairs(write(tmp_path / "s", "\n\n"), write(tmp_path / "t", "a\nb\n"))
