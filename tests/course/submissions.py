"""Thirty submissions to the homework of the template: right, wrong, hostile, endless, too large, no program at all."""

SCORES = "def scores(query, key):\n    return query @ key.mT / key.shape[-1] ** 0.5\n"
WEIGHTS = (
    "def weights(scores):\n    e = tt.exp(scores - tt.max(scores, axis=-1, keepdims=True))\n"
    "    return e / tt.sum(e, axis=-1, keepdims=True)\n"
)
BEGUN = "import tinytensor as tt\n\n"
RIGHT = f"{BEGUN}{SCORES}\n\n{WEIGHTS}"


def with_weights(body):
    return f"{BEGUN}{SCORES}\n\ndef weights(scores):\n    {body}\n"


def with_scores(body):
    return f"{BEGUN}{WEIGHTS}\n\ndef scores(query, key):\n    {body}\n"


SUBMISSIONS = {  # name: the program, the points for scores and for weights, and words of the feedback
    "right": (RIGHT, (2, 3), "scores: right"),
    "right_in_numpy": (with_scores("return query.numpy() @ key.numpy().T / key.shape[-1] ** 0.5"), (2, 3), ""),
    "right_by_the_library": (with_weights("return tt.nn.functional.softmax(scores, dim=-1)"), (2, 3), ""),
    "right_notebook": (RIGHT, (2, 3), "weights: right"),
    "right_with_a_failing_cell": (f"1 / 0\n{RIGHT}\nraise ValueError('late')\n", (2, 3), "line 1: ZeroDivisionError"),
    "right_and_silent_checks": (f"{RIGHT}\nlesson.check(scores)\n", (2, 3), ""),
    "half": (f"{BEGUN}{SCORES}\n\ndef weights(scores):\n    return ...\n", (2, 0), "The hole is still there"),
    "no_root": (with_scores("return query @ key.mT / key.shape[-1]"), (0, 3), "the root is missing"),
    "not_scaled": (with_scores("return query @ key.mT"), (0, 3), "not divided by √d_k"),
    "of_one_shape": (with_scores("return query @ key.mT / 3**0.5"), (0, 3), "scores of 4 queries and 3 keys"),
    "columns": (with_weights("return tt.nn.functional.softmax(scores, dim=0)"), (2, 0), "each column adds up to 1"),
    "overflow": (with_weights("e = tt.exp(scores); return e / e.sum(-1, keepdims=True)"), (2, 0), "it is not finite"),
    "raises": (with_weights("return scores.softmax_of_rows()"), (2, 0), "It raised AttributeError in line 8"),
    "nothing_there": ("x = 1\n", (0, 0), "there is no function of this name"),
    "syntax": ("def scores(query, key)\n    return 1\n", (0, 0), "line 1: SyntaxError"),
    "empty": ("", (0, 0), "there is no function of this name"),
    "no_text": (b"\xff\xfe\x00scores", (0, 0), "The file cannot be read"),
    "broken_notebook": ('{"cells": [', (0, 0), "broken_notebook."),
    "system_exit": (f"{RIGHT}\nraise SystemExit(0)\n", (2, 3), "line 11: SystemExit"),
    "exit_at_once": (f"import os\nos._exit(0)\n{RIGHT}", (0, 0), "ended the program"),
    "exit_within": (with_weights("import os; os._exit(0)"), (2, 0), "ended the program"),
    "kills_itself": (with_weights("import os; os.kill(os.getpid(), 9)"), (2, 0), "was ended by the system"),
    "deletes_files": (
        f"import os, shutil\nshutil.rmtree(os.path.dirname(__file__))\nshutil.rmtree(os.getcwd())\n{BEGUN}",
        (0, 0), "does not run to its end",
    ),
    "replaces_the_verdict": (
        "from tinytensor.models.scripts import answers, exercises\n"
        "exercises.Exercise.verdict = lambda *a, **k: exercises.Verdict(True, 'right', 'right')\n"
        "exercises.agree = lambda *a, **k: None\n\ndef scores(query, key):\n    return 0\n\n\n"
        "def weights(scores):\n    return 0\n",
        (0, 0), "scores: wrong",
    ),
    "rewrites_the_checks": (
        "import sys\nfor path in sys.argv[1:3]:\n    open(path, 'w').write('')\nfor name in ('log', 'where'):\n"
        "    open(name, 'w').write('')\n\ndef scores(query, key):\n    return 0\n",
        (0, 0), "scores: wrong",
    ),
    "prints_megabytes": (f"print('x' * 20_000_000)\n{RIGHT}", (2, 3), "characters more"),
    "reads_the_environment": (f"import os\nprint(dict(os.environ))\n{RIGHT}", (2, 3), "PATH"),
    "leaves_a_child": (
        "import subprocess, sys\ncode = 'import time; time.sleep(3); open(\"SURVIVED\", \"w\")'\n"
        f"subprocess.Popen([sys.executable, '-c', code])\n{RIGHT}",
        (2, 3), "",
    ),
    "endless": (with_weights("while True:\n        pass"), (2, 0), "does a loop never end?"),
    "too_large": (with_weights("return tt.zeros((10**6, 10**6))"), (2, 0), "memory"),
}  # fmt: skip
