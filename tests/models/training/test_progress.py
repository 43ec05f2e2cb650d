"""What a run says: plain lines off a terminal, a bar on one."""

import io
import sys

import pytest

from tinytensor.models.training.progress import Progress

FIGURES = {"loss": 2.34567, "token accuracy": 0.5, "sequence accuracy": 1.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines(capsys):
    progress = Progress(250, every=100)
    assert [step for step in range(1, 251) if progress.due(step)] == [100, 200, 250]
    progress.show(100, FIGURES, 1234.5)
    progress.say("hello -> hello")
    progress.close()
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first == "step 100/250: loss 2.346, token accuracy 50.0%, sequence accuracy 100.0%, 1,234 tokens/s"
    assert second == "hello -> hello"
    assert err == ""


def test_tokens_per_second_are_those_since_the_last_time(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("tinytensor.models.training.progress.time.perf_counter", lambda: now[0])
    progress = Progress(10, every=1)
    for tokens in (30, 70):
        progress.step(tokens)
    now[0] = 2.0
    assert progress.rate() == 50.0
    progress.step(30)
    now[0] = 2.5
    assert progress.rate() == 60.0
    assert progress.rate() == 0.0  # no time has gone by either
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal_shows_every_figure(monkeypatch, capsys):
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(1500, start=1199, every=100)
    assert all(progress.due(step) for step in (1200, 1205, 1210, 1500))
    progress.step(40_000)
    progress.show(1200, {"loss": 12.34567, "token accuracy": 1.0, "sequence accuracy": 1.0}, 98765.4)
    progress.say("hello -> hello")
    progress.close()
    frames = [frame for frame in terminal.getvalue().replace("\n", "\r").split("\r") if "1200/1500" in frame]
    assert any("loss 12.346, token 100.0%, sequence 100.0%" in frame for frame in frames)
    assert all(frame.endswith(", 98,765 tokens/s") for frame in frames if "loss" in frame)
    assert "hello -> hello" in capsys.readouterr().out
