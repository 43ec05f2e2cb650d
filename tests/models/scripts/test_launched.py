"""What a rank says reaches the launcher before the word that ends all."""

import os
import select
import subprocess
import sys

import pytest

SAYS_AND_ENDS = """
import sys
from tinytensor.models.scripts import launched
launched.READING = 60  # however busy the machine is
print("rank 1 of 4 was killed", file=sys.stderr, flush=True)
launched._tell_launcher(137)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows passes no descriptors")
def test_the_launcher_reads_the_last_line_before_it_is_asked_to_end_all():
    asked, ask = os.pipe()
    rank = subprocess.Popen(
        [sys.executable, "-c", SAYS_AND_ENDS],
        env={**os.environ, "PMI_FD": str(ask)}, pass_fds=[ask], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(ask)
    assert select.select([rank.stderr], [], [], 60)[0]  # said, and read by nobody yet
    assert not select.select([asked], [], [], 0.3)[0]
    assert rank.stderr.readline() == b"rank 1 of 4 was killed\n"
    assert os.read(asked, 100) == b"cmd=abort exitcode=137\n"
    os.close(asked)
    rank.communicate()
