import os

import pytest

from tinytensor.machine.files import atomic_write, read_file, read_json, read_text


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a.txt"
    atomic_write(path, b"one")
    atomic_write(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder of the file does not exist; create it first.*missing"):
        atomic_write(tmp_path / "missing" / "a.txt", b"")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    atomic_write(path, b"old")

    def fail(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space left"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_bytes(b"old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    atomic_write(tmp_path / "link.txt", b"new")
    assert (tmp_path / "real.txt").read_bytes() == b"new"
    assert (tmp_path / "link.txt").is_symlink()


def test_reading(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": "ö"}', encoding="utf-8")
    assert (read_file(path), read_text(str(path)), read_json(path)) == (path.read_bytes(), '{"a": "ö"}', {"a": "ö"})
    for content, message in (
        (b"\xff", "not in UTF-8"),
        (b"{", "not JSON"),
        (b"[" * 10**5, "not JSON"),
        (b"", "not JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"a\.json: {message}"):
            read_json(path)


def test_what_is_no_file_is_named_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="a pipe or a device is in the place of the file: .*pipe"):
        read_file(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_file(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match="missing"):
        read_file(tmp_path / "missing")
    for name in ("a\0b", "\ud800"):
        with pytest.raises(OSError, match="no name of a file .*: .*(x00|ud800)"):
            read_file(tmp_path / name)
